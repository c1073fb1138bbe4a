package limits

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

func TestAnAddressIsReadAsProxiesWriteIt(t *testing.T) {
	check := func(text, want string) {
		t.Helper()
		addr, ok := ParseAddr([]byte(text))
		if got := addr.String(); ok && got != want || !ok && want != "" {
			t.Errorf("%q: %s, %v, want %q", text, got, ok, want)
		}
		if ok && want == "" {
			t.Errorf("%q is read as %s, want it refused", text, addr)
		}
	}
	check("203.0.113.9", "203.0.113.9")
	check("203.0.113.9:52241", "203.0.113.9")
	check(" 203.0.113.9\t", "203.0.113.9")
	check("2001:db8::1", "2001:db8::1")
	check("[2001:db8::1]", "2001:db8::1")
	check("[2001:db8::1]:443", "2001:db8::1")
	check("2001:DB8:0:0::1", "2001:db8::1")
	check("::ffff:203.0.113.9", "203.0.113.9")
	check("::FFFF:cb00:7109", "203.0.113.9")
	check("[::ffff:203.0.113.9]:80", "203.0.113.9")
	check("fe80::1%eth0.100", "fe80::1")
	check("[fe80::1%eth0]:80", "fe80::1")
	check("2001:db8:1234:5678::1.2.3.4", "2001:db8:1234:5678::102:304") // no mapped address
	check("::", "::")
	check("0.0.0.0", "0.0.0.0")

	for _, junk := range []string{"", " ", "unknown", "_hidden", "-", "1.2.3", "999.1.1.1", "1.2.3.4.5", "01.2.3.4", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:123456",
		"1.2.3.4 5", "1.2.3.4%eth0", ":80", "[1.2.3.4]", "[1.2.3.4]:80", "[::1", "[::1]x", "[::1]:", "[::1]:x", "::1]", "[]", "[]:80", "[[::1]]", "::1%", "[%eth0]", "%eth0", "::1::2",
		"1:2:3:4:5:6:7:8:9", "2001:db8::1/64", "1.2.3.4/32", "1.2.3.4,5.6.7.8", "\"1.2.3.4\"", "for=1.2.3.4", "\x00", "::ffff:1.2.3.4\x00",
		strings.Repeat(":", 10240), strings.Repeat("1", 10240), "[" + strings.Repeat("0:", 5000) + "]"} {
		check(junk, "")
	}
}

func TestTheClientIsTheLastHopThatIsNotTrusted(t *testing.T) {
	trusted, err := ParsePrefixes([]string{"10.0.0.0/8", "198.51.100.0/24", "::ffff:192.168.0.0/112", "2001:db8:ffff::1"})
	if err != nil {
		t.Fatal(err)
	}
	peer := netip.MustParseAddr("10.0.0.5")
	const none = "invalid IP"
	check := func(value, want string, wantOK bool) {
		t.Helper()
		addr, ok := ForwardedFor([]byte(value), trusted)
		if addr.String() != want || ok != wantOK {
			t.Errorf("%q: %s, %v, want %s, %v", value, addr, ok, want, wantOK)
		}
	}
	check("203.0.113.9", "203.0.113.9", true)
	for _, spoofed := range []string{"6.6.6.1", "6.6.6.2", "unknown", "10.9.9.9", "a\x00b", strings.Repeat(":", 10240)} {
		check(spoofed+", 203.0.113.9, 10.1.2.3", "203.0.113.9", true) // C032: what stands further left counts for nothing
	}
	check("203.0.113.9, unknown", none, false) // C034
	check("203.0.113.9, ", none, false)
	check("203.0.113.9,, 10.1.2.3", none, false)
	check("unknown", none, false)
	check("203.0.113.9:52241", "203.0.113.9", true)                     // C036
	check("192.0.2.10, 198.51.100.1, 198.51.100.2", "192.0.2.10", true) // C037
	check("10.1.1.1, 10.2.2.2", "10.1.1.1", true)                       // all trusted: the first
	check("10.1.1.1", "10.1.1.1", true)                                 // likewise
	check("203.0.113.9 ,\t[2001:db8:ffff::1]:80", "203.0.113.9", true)  // addresses that trusted proxies write
	check("203.0.113.9, ::ffff:10.0.0.7", "203.0.113.9", true)          // mapped
	check("203.0.113.9, 192.168.0.1", "203.0.113.9", true)              // trusted as a mapped prefix
	check("203.0.113.9, fe80::1%eth0", "fe80::1", true)                 // C043, where zone ids are understood
	check("203.0.113.9, 999.1.1.1", none, false)                        // C043
	check("203.0.113.9, 1.2.3", none, false)                            // C043
	check("203.0.113.9, "+strings.Repeat(":", 10240), none, false)      // C043
	check("", none, true)                                               // an empty header is a missing one
	check(" \t", none, true)

	if nobody, err := ParsePrefixes(nil); err != nil || nobody.Contains(peer) || nobody.Contains(netip.Addr{}) {
		t.Errorf("an empty list trusts %s, or %v", peer, err)
	}
	if all, err := ParsePrefixes([]string{"0.0.0.0/0", "::/0"}); err != nil || !all.Contains(peer) || all.Contains(netip.Addr{}) {
		t.Errorf("a list of all addresses does not hold %s, or holds none at all, or %v", peer, err)
	}
	_, err = ParsePrefixes([]string{"10.0.0.0/8", "proxy.local"})
	if want := `"proxy.local", want an address or CIDR such as "10.0.0.0/8"`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"", "1.2.3.4", "6.6.6.6, 203.0.113.9:80, 10.1.2.3", "[::1]:80, fe80::1%a", "unknown, 10.0.0.1", "::ffff:10.0.0.1,,"} {
		f.Add([]byte(s))
	}
	trusted, err := ParsePrefixes([]string{"10.0.0.0/8", "fe80::/10"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		addr, ok := ForwardedFor(value, trusted)
		hops := bytes.Split(value, []byte(","))
		isEmpty := len(bytes.Trim(value, " \t")) == 0
		if addr.Is4In6() || addr.Zone() != "" || addr.IsValid() != (ok && !isEmpty) || !ok && isEmpty {
			t.Fatalf("%q: %s, %v", value, addr, ok)
		}
		if !addr.IsValid() {
			return
		}
		for i := len(hops) - 1; i >= 0; i-- {
			hop, readable := ParseAddr(hops[i])
			if !readable {
				t.Fatalf("%q: %s, though %q cannot be read", value, addr, hops[i])
			}
			if !trusted.Contains(hop) || i == 0 {
				if hop != addr {
					t.Fatalf("%q: %s, want %s", value, addr, hop)
				}
				return
			}
		}
	})
}
