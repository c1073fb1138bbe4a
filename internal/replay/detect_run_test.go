package replay

import (
	"authz/internal/testkit"
	"fmt"
	"strings"
	"testing"
)

// Whatever scanners have sent first, and as much of it as they like.
func TestJunkAtTheTopHidesNoFormat(t *testing.T) {
	const good = `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 612 "-" "-"` + "\n"
	check := func(want, junk string) {
		t.Helper()
		r, err := Run(Options{Limits: testkit.Limits(t, total)}, []Log{{"access.log", strings.NewReader(junk + good)}})
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(r.Logs[0])
		}
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	check("{access.log combined 10001 1 0 0 [{not HTTP 10000 1}]}", strings.Repeat(`203.0.113.9 - - [10/Oct/2026:13:55:35 +0000] "\x16\x03\x01\x00" 400 0 "-" "-"`+"\n", 10_000))
	check("{access.log combined 101 1 0 0 [{not in this format 100 1}]}", strings.Repeat("junk\n", 100))
	check("{access.log combined 4 1 0 0 [{longer than 1 MiB 3 1}]}", strings.Repeat(strings.Repeat("x", 2<<20)+"\n", 3))
}

// The first line may be a secret, and the error goes to a terminal or to the log of a job.
func TestALogInNoKnownFormatIsNamedAndNotQuoted(t *testing.T) {
	_, err := Run(Options{Limits: testkit.Limits(t, total)}, []Log{{"access.log", strings.NewReader("a secret\x1b[2J\n\nb")}})
	const want = "access.log: none of the first 3 lines is combined, common, json or ltsv, want --format with the text of its log_format, or --format-from with the nginx.conf that has it"
	if fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
