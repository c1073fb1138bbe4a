package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAPastedRequestIsRead(t *testing.T) {
	check := func(want, text, ip, zone string) {
		t.Helper()
		got := ""
		if q, err := pasted(text, ip, zone); err != nil {
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
	check("this is no request that authz explain --json reads", `{"verb":"GET"}`, "", "")
	check("want a request such as POST /login, with its headers below it; a line of an access log; or JSON", "hello", "", "")
	check("want a request such as POST /login, with its headers below it; a line of an access log; or JSON", "", "", "")
}

func TestThePageIsNothingButItself(t *testing.T) {
	s := serviceFor(t, tokens)
	a := &admin{service: s, storeState: func(context.Context) string { return "memory" }}
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
}
