package limits

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

const writtenLimits = `
	[limit.login]
	key       = ["ip"]
	algorithm = "sliding_window"
	rate      = "5/m"
	[override.login."192.0.2.0/24"]
	rate = "50/m"
	[override.login."192.0.2.7"]
	rate = "unlimited"
	[limit.plan]
	key       = ["header:X-API-Key"]
	missing   = "ip"
	algorithm = "token_bucket"
	rate      = "100/s"
	[override.plan."k1"]
	rate = "7/s"
	[limit.both]
	match     = { path = ["/api/*/items", "/login"] }
	key       = ["ip", "path", "host", "query:user"]
	missing   = "share"
	algorithm = "fixed_window"
	rate      = "9/m"
	[override.both."2001:db8::/64|/login|a.test|ann"]
	rate = "90/m"
	[limit.all]
	key       = []
	algorithm = "leaky_bucket"
	rate      = "10/s"
	[schedule.all.once]
	rate  = "20/s"
	from  = "2026-01-01T00:00"
	until = "2026-01-02T00:00"
	zone  = "UTC"
	[limit.session]
	match     = { path = "/session" }
	key       = ["ip", "cookie:sid"]
	missing   = "skip"
	algorithm = "fixed_window"
	rate      = "6/m"
	[limit.none]
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "0/s"`

func TestAKeyThatAPersonHasWrittenIsARequests(t *testing.T) {
	set := load(t, writtenLimits)
	check := func(want, limit, key string) {
		t.Helper()
		got := ""
		if c, err := set.CheckOf(limit, key, 0); err != nil {
			got = err.Error()
		} else {
			got = string(c.Identity()) + " " + c.Rate.String()
			if again, err := set.CheckOf(limit, string(c.Key), 0); err != nil || string(again.Key) != string(c.Key) {
				t.Errorf("%s: as a Redis key: %s, %v", c.Key, again.Key, err)
			}
		}
		if got != want {
			t.Errorf("%s %s: got\n%s\nwant\n%s", limit, key, got, want)
		}
	}
	check("ip=203.0.113.9 5/m", "login", "203.0.113.9")
	check("ip=203.0.113.9 5/m", "login", "ip=203.0.113.9")
	check("ip=203.0.113.9 5/m", "login", "authz:v1:{ip=203.0.113.9}:login:sw")
	check("ip=2001:db8:1:2::/64 5/m", "login", "2001:db8:1:2::9")
	check("ip=2001:db8:1:2::/64 5/m", "login", "ip=2001:db8:1:2::/64")
	check("ip=unknown 5/m", "login", "unknown")
	check("ip=192.0.2.8 50/m", "login", "192.0.2.8")
	check(`limit.login: key "192.0.2.7": its rate is unlimited, for which nothing is counted`, "login", "192.0.2.7")
	check(`limit.none: key "192.0.2.7": its rate is 0/s, for which nothing is counted`, "none", "192.0.2.7")
	check(`limit.login: key "2001:db8:1::/48": 2001:db8:1::/48 has many buckets, want an address, or a group such as 2001:db8:1::/64`, "login", "2001:db8:1::/48")
	check(`limit.login: key "ann": "ann" is no address, want "203.0.113.9", or what explain says of it: "ip=203.0.113.9"`, "login", "ann")
	check(`limit.login: key "": "" is no address, want "203.0.113.9", or what explain says of it: "ip=203.0.113.9"`, "login", "")
	check(`limit.login: key "192.0.2.1|x": "192.0.2.1|x" is no address, want "203.0.113.9", or what explain says of it: "ip=203.0.113.9"`, "login", "192.0.2.1|x")
	check(`limit "logn": no such limit, want one of all, both, login, none, plan, session`, "logn", "x")

	digest := func(value string) string { return "header:x-api-key=" + string(appendDigest(nil, []byte(value))) }
	check(digest("k1")+" 7/s", "plan", "k1")
	check(digest("k1")+" 7/s", "plan", digest("k1"))
	check(digest("k1")+" 7/s", "plan", "header:x-api-key=k1")
	check(digest("k1")+" 7/s", "plan", fmt.Sprintf("sha256:%X", sha256.Sum256([]byte("k1"))))
	check(digest("k2")+" 100/s", "plan", "k2")
	check("ip=203.0.113.9 100/s", "plan", "ip=203.0.113.9")
	check(digest("k|1")+" 100/s", "plan", "k|1") // as in an override of a single part
	check("limit.plan: key *"+digest("sha256:12")[len("header:x-api-key=*"):]+": want sha256: and 64 hex digits", "plan", "sha256:12")
	check(`limit.plan: key "": nothing for header:x-api-key, want "VALUE", or what explain says of it: "header:x-api-key=VALUE"; `+
		"ip=203.0.113.9 stands for a part that is missing", "plan", "")

	check("ip=2001:db8::/64|path=/login|host=a.test|query:user=ann 90/m", "both", "2001:db8::7|/login|A.TEST|ann")
	check("ip=2001:db8::/64|path=/login|host=a.test|query:user=ann 90/m", "both", "ip=2001:db8::/64|path=/login|host=a.test|query:user=ann")
	check("ip=192.0.2.1|path=/api/%2A/items|host=a.test|query:user= 9/m", "both", "192.0.2.1|/api/*/items|a.test|")
	check("ip=192.0.2.1|path=/api/%2A/items|host=a.test|query:user=a%7Cb 9/m", "both", "192.0.2.1|path=/api/%2A/items|a.test|query:user=a%7Cb")
	check("ip=192.0.2.1|path=/login|host=a.test|query:user="+string(appendDigest(nil, []byte(strings.Repeat("u", 65))))+" 9/m",
		"both", "192.0.2.1|/login|a.test|"+strings.Repeat("u", 65))
	check(`limit.both: key "192.0.2.1|/x|a.test|": "/x" is no pattern of match.path, want /api/%2A/items or /login`, "both", "192.0.2.1|/x|a.test|")
	check(`limit.both: key "192.0.2.1|/login|a.test|query:user=%4": "%4", want %XX only as an escape of two hex digits`, "both", "192.0.2.1|/login|a.test|query:user=%4")
	check("*0123456789abcdef0123456789abcdef 9/m", "both", "*0123456789abcdef0123456789abcdef")

	check(`limit.both: key "192.0.2.1|/login": its number of parts is 2, want 4, such as "203.0.113.9|/api/%2A/items|VALUE|VALUE", `+
		`or what explain says of it: "ip=203.0.113.9|path=/api/%2A/items|host=VALUE|query:user=VALUE"`, "both", "192.0.2.1|/login")

	// A secret at the wrong place is not said again.
	const wrong = `, want "203.0.113.9|VALUE", or what explain says of it: "ip=203.0.113.9|cookie:sid=VALUE"`
	shown := func(value string) string { return string(appendDigest(nil, []byte(value))) }
	check("limit.session: key "+shown("s3cr3t|192.0.2.1")+": "+shown("s3cr3t")+" is no address"+wrong, "session", "s3cr3t|192.0.2.1")
	check("limit.session: key "+shown("s3cr3t")+": its number of parts is 1, want 2, such as"+strings.TrimPrefix(wrong, ", want"), "session", "s3cr3t")
	check("limit.session: key "+shown("192.0.2.1|cookie:sid=s3cr3t%4")+": "+shown("s3cr3t%4")+", want %XX only as an escape of two hex digits",
		"session", "192.0.2.1|cookie:sid=s3cr3t%4")

	check(" 10/s", "all", "")
	check(" 10/s", "all", "everybody")
	check(`limit.all: key "x": want "": everybody shares one bucket`, "all", "x")
	if c, err := set.CheckOf("all", "", 1767225600_000000); err != nil || c.Rate.String() != "20/s" {
		t.Errorf("at a schedule's time: %v, %v", c.Rate, err)
	}
}

// Whatever a request's check is, its identity is the way back to it.
func TestTheIdentityOfAnyRequestIsAKeyThatCanBeWritten(t *testing.T) {
	set := load(t, writtenLimits)
	random := rand.New(rand.NewPCG(1, 2))
	text := func() []byte {
		b := make([]byte, random.IntN(90))
		for i := range b {
			b[i] = byte(random.IntN(256))
		}
		return b
	}
	var m Match
	n := 0
	for range 5000 {
		addr, _ := ParseAddr([]byte([]string{"203.0.113.9", "2001:db8::9", "192.0.2.8", ""}[random.IntN(4)]))
		path, query, ok := Target(nil, append([]byte("/login?user="), text()...))
		if !ok {
			continue
		}
		set.Match(&Attrs{Method: []byte("GET"), Host: text(), Path: path, Query: query, IP: addr, Headers: [][]byte{text()}}, &m)
		for _, c := range m.Checks {
			if c.Rate.Count == 0 {
				continue
			}
			n++
			got, err := set.CheckOf(c.Limit.Name, string(c.Identity()), 0)
			if err != nil || string(got.Key) != string(c.Key) || got.Rate != c.Rate && !isShortDigest(string(c.Identity())) {
				t.Fatalf("%s: %s, %v, %v; want %s", c.Identity(), got.Key, got.Rate, err, c.Key)
			}
		}
	}
	if n < 1000 {
		t.Fatalf("%d checks were looked at", n)
	}
}

// Whatever a person writes, it is a key that a request could have, or an error; and what is said of it is the way back.
func FuzzCheckOf(f *testing.F) {
	set := load(f, writtenLimits)
	for _, key := range []string{"203.0.113.9", "ip=2001:db8::/64", "k1", "sha256:00", "ip=192.0.2.1|path=/login|host=a|query:user=%7C", "", "*0123456789abcdef0123456789abcdef", "a{b}|c"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		for _, l := range set.Limits() {
			c, err := set.CheckOf(l.Name, key, 0)
			if err != nil {
				continue
			}
			identity := string(c.Identity())
			again, err := set.CheckOf(l.Name, identity, 0)
			if err != nil || string(again.Key) != string(c.Key) {
				t.Errorf("%s %q: %s, and by its identity %s, %v", l.Name, key, c.Key, again.Key, err)
			}
			if strings.Count(string(c.Key), "{") != 1 || strings.Count(string(c.Key), "}") != 1 || len(identity) > longestIdentity {
				t.Errorf("%s %q: %s", l.Name, key, c.Key)
			}
		}
	})
}
