package limits

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestTheJSONBeginsWithTheDigestOfTheRest(t *testing.T) {
	text := string(load(t, "[deny.a]").JSON())
	rest := `,"key_prefix":"authz","defaults":{"hold_max_us":400000,"replicas":1,"ipv4_prefix":32,"ipv6_prefix":64},"deny":[{"name":"a"}],"allow":[],"limits":[]}` + "\n"
	if want := fmt.Sprintf(`{"version":"%x"%s`, sha256.Sum256([]byte(rest)), rest); text != want {
		t.Errorf("%s, want %s", text, want)
	}
	if version := load(t, "[deny.a]").Version(); text[12:76] != version || version == load(t, "[deny.b]").Version() {
		t.Errorf("the version is %s, want that of the text, %s, and another for other rules", version, text[12:76])
	}
	if text[77:] != rest || text[77] != ',' {
		t.Errorf("the rest is %q, want it to begin at byte 77", text[77:])
	}
}

// Everything that there is, each in its place (the lines are broken for readers).
func TestTheJSONHasAllThatMatchingNeeds(t *testing.T) {
	text := string(load(t, `
		[defaults]
		replicas = 3
		ipv6_prefix = 48
		[limit.a]
		match     = { path = ["/caf%E9%20/ü/*", "/b"], host = "*.Example.com", method = ["GET", "HEAD"], ip = "10.9.9.9/8" }
		unless    = { zone = "a<b", header = { X-B = "\u00ff", X-A = ["1", "2*"] }, query = { "ä" = "*" }, cookie = { c = "%" } }
		key       = ["ip", "header:X-API-Key", "query:ä", "path", "path:raw"]
		missing   = "share"
		algorithm = "leaky_bucket"
		rate      = "30/s"
		burst     = 6
		cost      = "header:X-Cost"
		cost_max  = 2
		mode      = "shadow"
		on_error  = "deny"
		[override.a."10.0.0.0/8|acme|x y|/b|/b"]
		rate = "unlimited"
		[override.a."2001:db8::1|acme|x|/caf%E9%20/%C3%BC/*|/b"]
		burst = 7
		[limit.b]
		key        = []
		algorithm  = "fixed_window"
		rate       = "0/d"
		utc_offset = "+08:00"
		[deny.d]
		match = { path = "/**/.env" }
		[allow.c]
		unless = { method = "POST" }
`).JSON())
	want := strings.ReplaceAll(`,"key_prefix":"authz","defaults":{"hold_max_us":400000,"replicas":3,"ipv4_prefix":32,"ipv6_prefix":48}
,"deny":[{"name":"d","match":{"path":["/**/.env"]}}],"allow":[{"name":"c","unless":{"method":["POST"]}}]
,"limits":[{"name":"a","match":{"path":["/caf%E9%20/%C3%BC/*","/b"],"host":["*.example.com"],"method":["GET","HEAD"],"ip":["10.0.0.0/8"]}
,"unless":{"zone":["a<b"],"header":{"x-a":["1","2*"],"x-b":["ÿ"]},"query":{"ä":["*"]},"cookie":{"c":["%"]}}
,"key":[{"kind":"ip","head":"ip="},{"kind":"header","name":"x-api-key","head":"header:x-api-key=","secret":true},{"kind":"query","name":"ä","head":"query:%C3%A4="},{"kind":"path","head":"path=","texts":["/caf%E9%20/%C3%BC/%2A","/b"]},{"kind":"path:raw","head":"path:raw="}]
,"missing":"share","cost_header":"x-cost","cost_max":2,"algorithm":"leaky_bucket"
,"rate":{"limit":30,"window_us":1000000,"burst":6,"n":3,"w":100000,"capacity":700000
,"share":{"limit":10,"window_us":1000000,"burst":2,"n":1,"w":100000,"capacity":300000}},"shadow":true,"on_error":"deny"
,"overrides":{"ip=10.0.0.0/8|header:x-api-key=*822b33ad87c148a0a20a5ba7cd5ebcaa|query:%C3%A4=x%20y|path=/b|path:raw=/b":{"unlimited":true}
,"ip=2001:db8::/48|header:x-api-key=*822b33ad87c148a0a20a5ba7cd5ebcaa|query:%C3%A4=x|path=/caf%E9%20/%C3%BC/%2A|path:raw=/b":{"limit":30,"window_us":1000000,"burst":7,"n":3,"w":100000,"capacity":800000,"share":{"limit":10,"window_us":1000000,"burst":2,"n":1,"w":100000,"capacity":300000}}}
,"override_prefixes":{"ipv4":[8],"ipv6":[48]}}
,{"name":"b","key":[],"cost":1,"algorithm":"fixed_window","rate":{"limit":0,"window_us":86400000000,"offset_us":57600000000},"shadow":false,"on_error":"local"}]}
`, "\n", "") + "\n"
	if text[77:] != want {
		t.Errorf("%s\nwant\n%s", text[77:], want)
	}
}

func TestTheJSONHoldsNoSecret(t *testing.T) {
	text := keyed("a", "header:Authorization", "cookie:session", "query:api_key") + `
		[override.a."Bearer hunter2|hunter3|hunter4"]
		rate = "6/m"`
	one, two := load(t, text).JSON(), load(t, text).JSON()
	if string(one) != string(two) {
		t.Errorf("the same file gives %s and %s", one, two)
	}
	identity := "header:authorization=" + digest("Bearer hunter2") + "|cookie:session=" + digest("hunter3") + "|query:api_key=" + digest("hunter4")
	if !strings.Contains(string(one), `"overrides":{"`+identity+`":{"limit":6,`) || strings.Contains(string(one), "hunter") {
		t.Errorf("%s, want an override of %s and no secret", one, identity)
	}
	if !json.Valid(one) {
		t.Error("it is no JSON")
	}
}
