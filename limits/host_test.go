package limits

import "testing"

// The host of a rule or a key is nginx's $host: no port, no spelling and no last dot makes another host.
func TestAHostIsReadAsNginxReadsIt(t *testing.T) {
	check := func(want string, spellings ...string) {
		t.Helper()
		for _, text := range spellings {
			if got := string(appendHost(nil, []byte(text))); got != want || !HostIsValid([]byte(text)) {
				t.Errorf("%q: %q, valid %v, want %q", text, got, HostIsValid([]byte(text)), want)
			}
		}
	}
	check("api.example.com", "api.example.com", "API.Example.com", "api.example.com.",
		"api.example.com:80", "api.example.com.:80", "api.example.com:", "api.example.com::", "api.example.com:1:2",
		"api.example.com:x:y", "api.example.com.:1:2", "api.example.com:80.")
	check("[2001:db8::1]", "[2001:db8::1]", "[2001:DB8::1]:443", "[2001:db8::1]:1:2", "[2001:db8::1]x", "[2001:db8::1].")
	check("[2001:db8::1", "[2001:db8::1")
	check("a[1]", "a[1]:80")
	check("2001", "2001:db8::1") // a client that forgets the brackets
	check("münchen.example", "münchen.example:80")
	check("_", "_")
	check("~^(?<shop>..+)\\.example$", "~^(?<shop>..+)\\.example$") // a server_name, for a client without a host
	check("", "")

	for _, text := range []string{"a..b", "a..", "..", ".", ".:80", ":", ":80", "::1", "a/b", "a b", "a\tb", "a\x00",
		"a\x7f", "a:8..0", "a:80/", " "} {
		if HostIsValid([]byte(text)) {
			t.Errorf("%q is valid, want it refused as nginx refuses it", text)
		}
	}
}

func TestTheFirstParameterOfANameCounts(t *testing.T) {
	check := func(query, want string) {
		t.Helper()
		if got := string(QueryValue([]byte("before "), []byte(query), "zone")); got != "before "+want {
			t.Errorf("%q: %q, want %q", query, got, "before "+want)
		}
	}
	check("zone=api", "api")
	check("x=1&zone=api&zone=other", "api")
	check("z%6fne=a+b%2Fc", "a b/c")
	check("zone", "")
	check("zone=&zone=api", "")
	check("ZONE=api&zones=b&x=zone", "")
	check("", "")
}
