package explain

import (
	"encoding/json"
	"testing"
)

func TestAPastedRequestIsRead(t *testing.T) {
	check := func(want, text, ip, zone string) {
		t.Helper()
		got := ""
		if q, err := ParsePasted(text, ip, zone); err != nil {
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
