package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"

	"authz/internal/monotonic"
	"authz/internal/toptalkers"
)

// getTop answers [{"limit":...}].
func (a *Admin) getTop(w http.ResponseWriter, r *http.Request) {
	span, known := toptalkers.Spans[cmp.Or(r.FormValue("span"), "1m")]
	n, err := strconv.Atoi(cmp.Or(r.FormValue("n"), "10"))
	switch {
	case !known:
		answerJSON(w, nil, UsageError{fmt.Errorf("span = %q, want 1m or 1h", r.FormValue("span"))})
	case err != nil || n < 1 || n > toptalkers.Most:
		answerJSON(w, nil, UsageError{fmt.Errorf("n = %q, want 1 to %d", r.FormValue("n"), toptalkers.Most)})
	default:
		answerJSON(w, append([]toptalkers.Key{}, a.Refused.Top(span, monotonic.Now(), n)...), nil)
	}
}
