package main

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"authz/internal/explain"
	"authz/store"
)

func TestAPastedRequestIsRead(t *testing.T) {
	check := func(want, text, ip, zone string) {
		t.Helper()
		got := ""
		if q, err := explain.ParsePasted(text, ip, zone); err != nil {
			got = err.Error()
		} else {
			line, _ := json.Marshal(q)
			got = string(line)
		}
		if got != want {
			t.Errorf("%q: got\n%s\nwant\n%s", text, got, want)
		}
	}
	check(`{"method":"POST","host":"","uri":"/login?x=1","ip":"","zone":"","headers":{},"at":""}`, "POST /login?x=1", "", "")
	check(`{"method":"GET","host":"a.test","uri":"/v1","ip":"203.0.113.9","zone":"z","headers":{"Cookie":["a=1","b=2"],"X-Api-Key":["k1"]},"at":""}`,
		"GET /v1 HTTP/1.1\r\nHost: a.test\r\nx-api-key: k1\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n", " 203.0.113.9 ", "z")
	check(`{"method":"GET","host":"a.test","uri":"/","ip":"","zone":"","headers":{"Accept":["*/*"]},"at":""}`, "> GET / HTTP/2\n> Host: a.test\n> Accept: */*\n>\n", "", "")
	check(`{"method":"GET","host":"a.test","uri":"/x","ip":"","zone":"","headers":{},"at":""}`, "GET http://a.test/x HTTP/1.1", "", "")
	check(`{"method":"GET","host":"","uri":"/a b","ip":"203.0.113.9","zone":"","headers":null,"at":""}`, `{"method":"GET","uri":"/a b","ip":"203.0.113.9"}`, "", "")
	check(`{"method":"POST","host":"","uri":"/login","ip":"203.0.113.9","zone":"","headers":null,"at":""}`,
		`203.0.113.9 - ann [10/Oct/2026:13:55:36 +0000] "POST /login HTTP/1.1" 429 0 "-" "curl/8"`, "", "")
	check(`json: unknown field "verb", want an object with method, host, uri, ip, zone, headers and at, such as `+
		`{"method":"GET","uri":"/","ip":"203.0.113.9","headers":{"X-API-Key":["k1"]}}`, `{"verb":"GET"}`, "", "")
	check("text after the object, want one request a line", `{"method":"GET"} {"method":"GET"}`, "", "")
	check("want a request such as POST /login, with its headers below it; a line of an access log; or JSON", "hello", "", "")
	check("want a request such as POST /login, with its headers below it; a line of an access log; or JSON", "", "", "")
}

func TestThePageIsNothingButItself(t *testing.T) {
	s := serviceFor(t, tokens)
	a := &admin{service: s}
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
	s := serviceFor(t, `
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
		rate      = "0/s"`)
	a := &admin{service: s, buckets: buckets{memory: s.store.(*store.Memory)}}
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

func TestAHistoryIsOfTheLastTenMinutes(t *testing.T) {
	s := serviceFor(t, tokens)
	h := &s.history
	h.sample(s.rules.Load())
	name := s.rules.Load().set.Limits()[0].Name
	counters := s.rules.Load().of(s.rules.Load().set.Limits()[0])
	for range 3 {
		counters.admitted.Add(30)
		counters.limited.Add(10)
		h.sample(s.rules.Load())
	}
	one := h.of(name)
	if a, r := lastMinute(&one.admitted), lastMinute(&one.refused); a != 1.5 || r != 0.5 {
		t.Errorf("%v admitted and %v refused a second in the last minute, want 1.5 and 0.5", a, r)
	}
	if c := newChart(&one); c.Most != "8.00" || !strings.HasSuffix(c.Refused, "V36.0 h2 V0.0 h2 V0.0 h2 V0.0 h2 V36 Z") || !strings.HasSuffix(c.Admitted, "V36.0 h2 V9.0 h2 V9.0 h2 V9.0 h2 V36 Z") {
		t.Errorf("%+v", c)
	}
	for range historySamples {
		h.sample(s.rules.Load())
	}
	if one = h.of(name); newChart(&one).Most != "0" || (h.of("none") != limitHistory{}) {
		t.Errorf("after ten minutes: %+v", one)
	}
}

// A limit is near when less than a fifth of it is left.
func TestWhoComesNearALimitIsCounted(t *testing.T) {
	s := serviceFor(t, "[limit.login]\nkey = [\"ip\"]\nalgorithm = \"sliding_window\"\nrate = \"10/m\"\n")
	for range 12 {
		answers(t, s, "X-Original-URI: /login", "X-Real-IP: 203.0.113.9")
	}
	if got := shown(t, s, "authz_near_limit_total"); got != "authz_near_limit_total{limit=\"login\"} 2\n" {
		t.Errorf("got %s, want 2: with one left, and with none", got)
	}

	// The first of a bucket says nothing of how it goes on.
	s = serviceFor(t, "[limit.one]\nkey = [\"ip\"]\nalgorithm = \"fixed_window\"\nrate = \"1/366d\"\n[limit.two]\nkey = []\nalgorithm = \"token_bucket\"\nrate = \"2/366d\"\n")
	answers(t, s, "X-Original-URI: /", "X-Real-IP: 203.0.113.1")
	answers(t, s, "X-Original-URI: /", "X-Real-IP: 203.0.113.2")
	if got := shown(t, s, "authz_near_limit_total"); got != "authz_near_limit_total{limit=\"one\"} 0\nauthz_near_limit_total{limit=\"two\"} 1\n" {
		t.Errorf("got %s, want none of those that are alone, and the second of two", got)
	}
}
