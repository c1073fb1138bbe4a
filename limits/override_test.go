package limits

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

func TestAnOverrideIsForTheKeyAsTheRequestHasIt(t *testing.T) {
	limit := func(more, key string, overrides ...string) string {
		text := "[limit.a]\nkey = " + key + "\nalgorithm = \"token_bucket\"\nrate = \"1/s\"\n" + more + "\n"
		for i, o := range overrides {
			text += fmt.Sprintf("[override.a.%q]\nrate = \"%d/s\"\n", o, i+2)
		}
		return text
	}
	ask := asking(t, limit(`missing = "skip"`, `["header:X-Plan"]`, "gold", "a b", "|", strings.Repeat("l", 65)))
	ask("limits a{header:x-plan=gold}@2", "GET http://h/", "X-Plan: gold")
	ask("limits a{header:x-plan=a%20b}@3", "GET http://h/", "X-Plan: a b")
	ask("limits a{header:x-plan=%7C}@4", "GET http://h/", "X-Plan: |")
	ask("limits a{header:x-plan="+digest(strings.Repeat("l", 65))+"}@5", "GET http://h/", "X-Plan: "+strings.Repeat("l", 65))
	ask("limits a{header:x-plan=Gold}", "GET http://h/", "X-Plan: Gold")
	ask("limits a{header:x-plan=%2Agold}", "GET http://h/", "X-Plan: *gold")
	ask("none missing:a", "GET http://h/")

	// A secret in clear or as its digest; a value that is not secret is never taken for one.
	ask = asking(t, limit(`missing = "skip"`, `["header:X-API-Key"]`, "acme", fmt.Sprintf("sha256:%X", sha256.Sum256([]byte("other")))))
	ask("limits a{header:x-api-key="+digest("acme")+"}@2", "GET http://h/", "X-API-Key: acme")
	ask("limits a{header:x-api-key="+digest("other")+"}@3", "GET http://h/", "X-API-Key: other")
	literal := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("x")))
	ask = asking(t, limit(`missing = "skip"`, `["zone"]`, literal))
	ask("limits a{zone="+digest(literal)+"}@2", "GET http://h/", "zone: "+literal)
	ask("limits a{zone=x}", "GET http://h/", "zone: x")

	ask = asking(t, limit("match = { path = [\"/a/*\", \"/b\", \"/c%2541\"] }", `["path", "host", "method"]`, "/a/*|API.Example.com:80|GET", "/b|h|GET", "/c%2541/|h|GET"))
	ask("limits a{path=/a/%2A|host=api.example.com|method=GET}@2", "GET http://api.example.com/a/1")
	ask("limits a{path=/a/%2A|host=api.example.com|method=POST}", "POST http://api.example.com/a/1")
	ask("limits a{path=/b|host=h|method=GET}@3", "GET http://h/b/")
	ask("limits a{path=/c%2541|host=h|method=GET}@4", "GET http://h/c%2541") // decoded once

	// It is found before a long identity becomes a digest.
	long := strings.Repeat("a", 64) + "|" + strings.Repeat("b", 64) + "|" + strings.Repeat("c", 64)
	ask = asking(t, limit(`missing = "share"`, `["header:X-A", "header:X-B", "zone"]`, long))
	v := strings.Split(long, "|")
	ask("limits a{"+digest("header:x-a="+v[0]+"|header:x-b="+v[1]+"|zone="+v[2])+"}@2", "GET http://h/", "X-A: "+v[0], "X-B: "+v[1], "zone: "+v[2])
}

func TestTheLongestPrefixOfAnOverrideWins(t *testing.T) {
	text := "[limit.a]\nkey = [\"ip\", \"zone\"]\nmissing = \"ip\"\nalgorithm = \"fixed_window\"\nrate = \"1/s\"\n"
	for i, o := range []string{"10.0.0.0/8|z", "10.1.0.0/16|z", "10.1.2.3|z", "0.0.0.0/0|z", "2001:db8::/32|z", "2001:db8:1:2::5|z", "10.0.0.0/8|y", "::ffff:192.0.2.0/120|z"} {
		text += fmt.Sprintf("[override.a.%q]\nrate = \"%d/s\"\n", o, i+2)
	}
	ask := asking(t, text)
	try := func(want, ip, zone string) { t.Helper(); ask(want, "GET http://h/", "ip: "+ip, "zone: "+zone) }
	try("limits a{ip=10.9.9.9|zone=z}@2", "10.9.9.9", "z")
	try("limits a{ip=10.1.9.9|zone=z}@3", "10.1.9.9", "z")
	try("limits a{ip=10.1.2.3|zone=z}@4", "10.1.2.3", "z")
	try("limits a{ip=10.1.2.3|zone=z}@4", "::ffff:10.1.2.3", "z")
	try("limits a{ip=9.9.9.9|zone=z}@5", "9.9.9.9", "z")
	try("limits a{ip=192.0.2.9|zone=z}@9", "192.0.2.9", "z")
	try("limits a{ip=10.1.2.3|zone=y}@8", "10.1.2.3", "y") // longer prefixes of another zone do not count
	try("limits a{ip=9.9.9.9|zone=y}", "9.9.9.9", "y")
	try("limits a{ip=2001:db8:1:3::/64|zone=z}@6", "2001:db8:1:3::5", "z")
	try("limits a{ip=2001:db8:1:2::/64|zone=z}@7", "2001:db8:1:2::5", "z")
	try("limits a{ip=2001:db8:1:2::/64|zone=z}@7", "2001:db8:1:2::6", "z") // of the same group: one bucket, one rate
	try("limits a{ip=2001:db9::/64|zone=z}", "2001:db9::1", "z")
	ask("limits a{ip=unknown|zone=z}", "GET http://h/", "zone: z")
	ask("limits a{ip=10.1.2.3|ip=10.1.2.3} missing:a", "GET http://h/", "ip: 10.1.2.3")
}
