package admin

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestThePageIsNothingButItself(t *testing.T) {
	a := New(running(t, "[limit.a]\nkey = []\nalgorithm = \"token_bucket\"\nrate = \"3/d\"\n", ""), "authz", "", false)
	for _, path := range []string{"/", "/page.css", "/page.js"} {
		w := httptest.NewRecorder()
		a.handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		h := w.Result().Header
		if w.Code != 200 || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; ") || h.Get("Cache-Control") != "no-store" ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %v", path, w.Code, h)
		}
		if text := w.Body.String(); strings.Contains(text, "://") || strings.Contains(text, "style=") || strings.Contains(text, "onclick") {
			t.Errorf("%s names a place elsewhere, or has what its policy forbids:\n%s", path, text)
		}
	}
}

// Without a script its forms say the same. A key that is a digest as a whole does not tell which override is its: the
// request does.
func TestAPastedRequestIsExplainedWithItsBuckets(t *testing.T) {
	long := strings.Repeat("a", 60)
	s := running(t, `
		[limit.plan]
		key       = ["header:A", "header:B", "header:C"]
		missing   = "share"
		algorithm = "token_bucket"
		rate      = "3/d"
		[override.plan."`+long+"|"+long+"|"+long+`"]
		rate = "9/d"
		[limit.gone]
		match     = { path = "/gone" }
		key       = []
		algorithm = "fixed_window"
		rate      = "0/s"`, "")
	a := New(s, "authz", "", false)
	page := func(path string, form url.Values) string {
		t.Helper()
		r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if a.handler().ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("%s: %d", path, w.Code)
		}
		return w.Body.String()
	}
	has := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: not in\n%s", w, text)
			}
		}
	}
	has(page("/explain", url.Values{"request": {"GET /\nA: " + long + "\nB: " + long + "\nC: " + long}}),
		"limit.plan: token_bucket, 9/d, burst 9 (by an override)", "9 of 9")
	gone := page("/explain", url.Values{"request": {"GET /gone\nA: a"}})
	has(gone, "limit.gone: fixed_window, 0/s", "3 of 3")
	if strings.Contains(gone, "class=\"bad\"") {
		t.Errorf("a limit that refuses all is an error:\n%s", gone)
	}
	has(page("/page/bucket", url.Values{"limit": {"plan"}, "key": {"a|b|c"}}), "limit.plan: token_bucket, 3/d, burst 3", "3 of 3")
}
