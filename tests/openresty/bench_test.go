package openresty

import (
	"fmt"
	"strings"
	"testing"
)

// apiLimits is a file with this many limits, of which apiRequest meets three, and this many overrides
// of two of them, for keys and for networks.
func apiLimits(limits, overrides int) string {
	var text strings.Builder
	text.WriteString(`
		[limit.login]
		match     = { path = "/login", method = "POST" }
		key       = ["ip"]
		algorithm = "sliding_window"
		rate      = "5/m"
		[limit.address]
		key       = ["ip"]
		algorithm = "token_bucket"
		rate      = "100/s"
		[limit.plan]
		match     = { host = "api.example.com", path = "/v1/**" }
		key       = ["header:X-API-Key"]
		missing   = "ip"
		algorithm = "token_bucket"
		rate      = "100/s"
		`)
	for i := range limits - 3 {
		fmt.Fprintf(&text, "[limit.service-%d]\nmatch = { path = \"/v1/service-%d/**\" }\nkey = [\"ip\", \"path\"]\nalgorithm = \"fixed_window\"\nrate = \"1000/m\"\n", i, i)
	}
	for i := range overrides {
		if i%2 == 0 {
			fmt.Fprintf(&text, "[override.plan.\"key-%d\"]\nrate = \"1000/s\"\n", i)
		} else {
			fmt.Fprintf(&text, "[override.address.\"10.%d.%d.%d\"]\nrate = \"1000/s\"\n", i>>16, i>>8&255, i&255)
		}
	}
	return text.String()
}

var apiRequest = packRequest{method: "GET", host: "api.example.com", uri: "/v1/service-5/items/7?page=2", ip: "10.0.0.9",
	headers: []packHeader{{"X-API-Key", []string{"key-8"}}}}

// BenchmarkTheLuaMatcher is limits.BenchmarkMatch in nginx's LuaJIT.
func BenchmarkTheLuaMatcher(b *testing.B) {
	m := startMatcher(b)
	for _, size := range []struct{ limits, overrides int }{{10, 0}, {1000, 0}, {10, 50000}} {
		b.Run(fmt.Sprintf("limits=%d/overrides=%d", size.limits, size.overrides), func(b *testing.B) {
			name := m.policy(b, apiLimits(size.limits, size.overrides))
			m.Send(b, "POST /time/1000/"+name, string(apiRequest.line())) // compiled by LuaJIT
			b.ResetTimer()
			got := m.Send(b, fmt.Sprintf("POST /time/%d/%s", b.N, name), string(apiRequest.line()))
			b.StopTimer()
			var checks, ns int
			if _, err := fmt.Sscanf(got.Body, "%d %d", &checks, &ns); err != nil || checks != 3 {
				b.Fatalf("%d %s, want 3 checks", got.Status, got.Body)
			}
			b.ReportMetric(float64(ns), "ns/match")
		})
	}
}
