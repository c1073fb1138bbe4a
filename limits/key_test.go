package limits

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// digest is how a value that may not be shown stands in an identity.
func digest(value string) string { return fmt.Sprintf("*%x", sha256.Sum256([]byte(value)))[:33] }

// keyed is a limit with these parts.
func keyed(name string, parts ...string) string {
	return fmt.Sprintf("[limit.%s]\nkey = %s\nalgorithm = \"token_bucket\"\nrate = \"5/m\"\nmissing = \"share\"\n",
		name, strings.ReplaceAll(fmt.Sprintf("%q", parts), `" "`, `", "`))
}

func TestARedisKeyHasTheIdentityAsItsHashTag(t *testing.T) {
	for algorithm, code := range map[string]string{"token_bucket": "tb", "leaky_bucket": "lb", "fixed_window": "fw", "sliding_window": "sw", "sliding_counter": "sc"} {
		set := load(t, fmt.Sprintf("[limit.a-B_9]\nkey = [\"ip\"]\nalgorithm = %[1]q\nrate = \"5/m\"\n[limit.all]\nkey = []\nalgorithm = %[1]q\nrate = \"5/m\"", algorithm))
		m := new(Match)
		set.Match(newAttrs(t, set, "GET http://h/", "ip: 2001:db8::1"), m)
		for i, want := range []string{"authz:v1:{ip=2001:db8::/64}:a-B_9:" + code, "authz:v1:{all}:all:" + code} {
			if got := string(m.Checks[i].Key); got != want {
				t.Errorf("key %s, want %s", got, want)
			}
		}
		if got := m.Checks[0].Identity(); string(got) != "ip=2001:db8::/64" || m.Checks[1].Identity() != nil {
			t.Errorf("identities %s and %s", got, m.Checks[1].Identity())
		}
	}
}

func TestEveryByteThatIsNotPlainIsEscaped(t *testing.T) {
	ask := asking(t, keyed("a", "header:X-A", "query:q|ä", "zone"))
	ask("limits a{header:x-a=AZaz09._~:/@+-=|query:q%7C%C3%A4=1|zone=z}", "GET http://h/?q%7c%c3%a4=1", "X-A: AZaz09._~:/@+-=", "zone: z")
	ask("limits a{header:x-a=%21%22%23%24%25%26%27%28%29%2A%2C%3B%3C%3E%3F%5B%5C%5D%5E%60%7B%7C%7D|query:q%7C%C3%A4=%20|zone=a%252Fb}",
		"GET http://h/?q%7c%c3%a4=+", "X-A: !\"#$%&'()*,;<>?[\\]^`{|}", "zone: a%2Fb")
	ask("limits a{header:x-a=%00%0D%0A%09%1A%7F%FF%FE%F0%9F%98%80|query:q%7C%C3%A4=1|zone=z}", "GET http://h/?q|%c3%a4=1", "X-A: \x00\r\n\t\x1a\x7f\xff\xfe\U0001F600", "zone: z") // C052
}

func TestDifferentCallersNeverShareABucket(t *testing.T) {
	ask := asking(t, keyed("a", "header:X-Tenant", "header:X-User")+"unless = { path = \"/one\" }\n"+keyed("b", "header:X-User")+"match = { path = \"/one\" }\n")
	try := func(want, tenant, user string) {
		t.Helper()
		ask(want, "GET http://h/", "X-Tenant: "+tenant, "X-User: "+user)
	}
	try("limits a{header:x-tenant=aa|header:x-user=b}", "aa", "b") // C044
	try("limits a{header:x-tenant=a|header:x-user=ab}", "a", "ab")
	try("limits a{header:x-tenant=a:b|header:x-user=c}", "a:b", "c")
	try("limits a{header:x-tenant=a|header:x-user=b:c}", "a", "b:c")
	try("limits a{header:x-tenant=a%7Cheader:x-user=b|header:x-user=c}", "a|header:x-user=b", "c")
	try("limits a{header:x-tenant=%2A"+digest("x")[1:]+"|header:x-user=c}", digest("x"), "c")
	ask("limits b{header:x-user=127.0.0.1}", "GET http://h/one", "X-User: 127.0.0.1", "ip: 127.0.0.1") // C045
}

func TestASecretIsWrittenAsItsDigest(t *testing.T) {
	// C046: of the whole, not of how it begins.
	for _, part := range []string{"header:Authorization", "header:Proxy-Authorization", "header:X-API-KEY", "header:X-Token-Id", "header:My-Secret", "header:X-Auth",
		"header:X-Password-2", "header:monkey"} {
		name := strings.TrimPrefix(part, "header:")
		ask := asking(t, keyed("a", part))
		for _, value := range []string{"k", "live_prod_AAAA", "live_prod_BBBB", strings.Repeat("k", 8192)} {
			ask("limits a{header:"+strings.ToLower(name)+"="+digest(value)+"}", "GET http://h/", name+": "+value)
		}
	}
	ask := asking(t, keyed("a", "query:API_Key", "query:user", "cookie:id", "header:Cookie"))
	ask("limits a{query:API_Key="+digest("k 1")+"|query:user=u|cookie:id="+digest("%20=1")+"|header:cookie="+digest("id=%20=1; b=2")+"}",
		"GET http://h/?API_Key=k+1&user=u", "Cookie: id=%20=1; b=2")
	ask("limits a{query:API_Key=|query:user=|cookie:id=|header:cookie=} missing:a", "GET http://h/?API_Key&user=&USER=u")
}

func TestALongValueIsWrittenAsItsDigest(t *testing.T) {
	ask := asking(t, keyed("a", "header:X-A"))
	at64, at65 := strings.Repeat("a", 63)+"%", strings.Repeat("a", 65)
	ask("limits a{header:x-a="+strings.Repeat("a", 63)+"%25}", "GET http://h/", "X-A: "+at64)
	ask("limits a{header:x-a="+digest(at65)+"}", "GET http://h/", "X-A: "+at65)
	for _, last := range []string{"x", "y"} { // C051
		value := strings.Repeat("a", 8191) + last
		ask("limits a{header:x-a="+digest(value)+"}", "GET http://h/", "X-A: "+value)
	}
	long := "/" + strings.Repeat("a", 64)
	ask = asking(t, keyed("a", "path", "path:raw")+"match = { path = \""+long+"\" }\n")
	ask("limits a{path="+digest(long)+"|path:raw="+digest(long)+"}", "GET http://h"+long)
}

func TestALongIdentityIsWrittenAsItsDigest(t *testing.T) {
	ask := asking(t, keyed("a", "header:X-A", "header:X-B", "header:X-C"))
	try := func(want, a, b, c string) {
		t.Helper()
		ask("limits a{"+want+"}", "GET http://h/", "X-A: "+a, "X-B: "+b, "X-C: "+c)
	}
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 58)
	whole := "header:x-a=" + a + "|header:x-b=" + b + "|header:x-c=ccc"
	if len(whole) != 160 {
		t.Fatalf("the identity has %d bytes, want 160", len(whole))
	}
	try(whole, a, b, "ccc")
	try(digest(whole+"c"), a, b, "cccc")
	try(digest("header:x-a="+strings.Repeat("%FF", 64)+"|header:x-b=1|header:x-c=2"), strings.Repeat("\xff", 64), "1", "2")
}

func TestLimitsOfOneSetShareTheTextOfTheirParts(t *testing.T) {
	set := load(t, keyed("a", "ip", "header:X-Key")+keyed("b", "header:x-key")+keyed("c", "ip")+
		keyed("d", "path")+"match = { path = [\"/x\", \"/*\"] }\n"+keyed("e", "path")+"match = { path = \"/*\" }\n")
	if len(set.parts) != 4 {
		t.Errorf("%d parts, want ip, the header and two of paths", len(set.parts))
	}
	m := new(Match)
	set.Match(newAttrs(t, set, "GET http://h/x", "ip: 192.0.2.1", "X-Key: k"), m)
	k := "header:x-key=" + digest("k")
	want := "limits a{ip=192.0.2.1|" + k + "} b{" + k + "} c{ip=192.0.2.1} d{path=/x} e{path=/%2A}"
	if got := m.show(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Two requests have the same identity only when their values are the same; a key is bounded and safe
// whatever a client sends.
func FuzzKeys(f *testing.F) {
	set := load(f, keyed("one", "header:X-A")+keyed("three", "header:X-A", "zone", "query:q")+keyed("secret", "header:X-Key", "cookie:c"))
	f.Add([]byte("a"), []byte("ab"), []byte("aa"), []byte("b"))
	f.Add([]byte("a|zone=b"), []byte("c"), []byte("a"), []byte("b|zone=c"))
	f.Add(bytes.Repeat([]byte("a"), 65), []byte(digest("x")), bytes.Repeat([]byte("\xff"), 64), []byte("}{"))
	f.Fuzz(func(t *testing.T, a1, b1, a2, b2 []byte) {
		keys := func(a, b []byte) (keys []string) {
			m := new(Match)
			query := "q="
			for _, c := range a {
				query += fmt.Sprintf("%%%02x", c)
			}
			set.Match(&Attrs{Headers: [][]byte{a, b}, Zone: b, Query: []byte(query)}, m)
			for i := range m.Checks {
				c := &m.Checks[i]
				if len(c.Identity()) > longestIdentity || len(c.Key) > len("authz:v1:{}:three:tb")+longestIdentity {
					t.Fatalf("key %s has %d bytes", c.Key, len(c.Key))
				}
				for _, b := range c.Identity() {
					if !plain[b] && b != '%' && b != '*' && b != '|' {
						t.Fatalf("key %s has a byte %q", c.Key, b)
					}
				}
				keys = append(keys, string(c.Key))
			}
			return keys
		}
		one, two := keys(a1, b1), keys(a2, b2)
		same := func(check int, want bool) {
			if got := one[check] == two[check]; got != want {
				t.Errorf("%q %q and %q %q: keys %s and %s, want the same: %v", a1, b1, a2, b2, one[check], two[check], want)
			}
		}
		same(0, bytes.Equal(a1, a2)) // one
		same(1, bytes.Equal(b1, b2)) // secret
		same(2, bytes.Equal(a1, a2) && bytes.Equal(b1, b2))
	})
}

func TestAbsentPartsAreNamed(t *testing.T) {
	set := load(t, keyed("a", "ip", "header:X-API-Key", "host", "cookie:s")+"[override.a.\"10.0.0.1|k|h|s\"]\nrate = \"6/m\"\n[deny.b]\n[allow.d]\n[allow.c]\n")
	if got := fmt.Sprint(set.Rules(Deny), set.Rules(Allow), set.Overrides()); got != "[b] [c d] 1" {
		t.Errorf("deny and allow rules and overrides: %s, want [b] [c d] 1", got)
	}
	set = load(t, keyed("a", "ip", "header:X-API-Key", "host", "cookie:s"))
	check := func(want string, lines ...string) {
		t.Helper()
		m := new(Match)
		set.Match(newAttrs(t, set, "GET http://h/", lines...), m)
		if got := fmt.Sprint(set.Limits()[0].Absent(m)); got != want {
			t.Errorf("%v: %s are absent, want %s", lines, got, want)
		}
	}
	check("[header:x-api-key cookie:s]")
	check("[cookie:s]", "X-API-Key: k")
	check("[]", "X-API-Key: k", "Cookie: s=1")
}
