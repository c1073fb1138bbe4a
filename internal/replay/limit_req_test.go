package replay

import (
	"fmt"
	"strings"
	"testing"

	"authz/internal/replay/accesslog"
	"authz/internal/testkit"
)

func TestWhatLimitReqNeverSaysIsCountedTogether(t *testing.T) {
	format, err := accesslog.ParseFormat("$msec $request_uri $limit_req_status")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for i, said := range []string{"REJECTED", "PASSED", "secret-1", "passed", "-", "DELAYED", "REJECTED_DRY_RUN", "DELAYED_DRY_RUN", "PASSED"} {
		fmt.Fprintf(&log, "179164053%d / %s\n", i, said)
	}
	r, err := Run(Options{Limits: testkit.Limits(t, total), Format: format}, []Log{{"log", strings.NewReader(log.String())}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(r.LimitReq), "[{DELAYED 1} {DELAYED_DRY_RUN 1} {PASSED 2} {REJECTED 1} {REJECTED_DRY_RUN 1} {other 2} {- 1}]"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
