package tests

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// readmeBlock is the block of nginx/README.md that has this in it.
func readmeBlock(t *testing.T, word string) string {
	t.Helper()
	text, err := os.ReadFile("../nginx/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```nginx\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(block[1], word) {
			return block[1]
		}
	}
	t.Fatalf("nginx/README.md has no block with %q", word)
	return ""
}

// What the README says to add is all there is to add, with a page for the 429 or without.
func TestTheReadmesLinesAreEnough(t *testing.T) {
	app := startApp(t)
	authz := startAuthz(t, "--limits="+limitsFile(t, onceOnly))
	upstream := func(name, addr string) string {
		return edited(t, name, "server "+addr+";", "server "+authz.addr+";")
	}
	page := strings.Replace(readmeBlock(t, "error_page 429"), "/var/www/errors", "html", 1)
	ownUpstream := strings.NewReplacer("10.0.0.5:7429", authz.addr, "server 10.0.0.6:7429 fail_timeout=1s;", "").Replace(readmeBlock(t, "upstream authz {"))
	for i, c := range []struct{ upstream, more, body string }{
		{upstream("authz_upstream_tcp.conf", "127.0.0.1:7429"), "", "429 Too Many Requests"},
		{upstream("authz_upstream_unix.conf", "unix:/run/authz/authz.sock"), "", "429 Too Many Requests"},
		{ownUpstream, page, "not so fast"},
	} {
		conf := readmeBlock(t, "authz_upstream_tcp.conf")
		for _, r := range [][2]string{
			{"include authz/authz_upstream_tcp.conf;", c.upstream},
			{"listen 80;", "listen LISTEN;" + c.more},
			{"127.0.0.1:8080", app.addr},
		} {
			if strings.Count(conf, r[0]) != 1 {
				t.Fatalf("the README's lines have not once %q:\n%s", r[0], conf)
			}
			conf = strings.Replace(conf, r[0], r[1], 1)
		}
		n := startNginx(t, conf, map[string]string{"html/limited.html": "not so fast"})
		n.from = fmt.Sprintf("127.0.0.%d", 2+i)
		if got := n.send(t, "GET /", "", "Host: example.com"); got.body != "app GET / 0 bytes" {
			t.Errorf("the first request: %d %q", got.status, got.body)
		}
		got := n.send(t, "GET /", "", "Host: example.com")
		if got.show("X-Authz-Limit") != "429 X-Authz-Limit=once" || !strings.Contains(got.body, c.body) {
			t.Errorf("the second request: %s %q, want a 429 with %q", got.show("X-Authz-Limit"), got.body, c.body)
		}
	}
}

// The rows of the README's table for people who come from limit_req, against limit_req itself: of 20
// requests at once both admit as many. R06: a delay above the burst never delays.
func TestALimitReqHasItsEqual(t *testing.T) {
	rows := []struct {
		name, limitReq, limit string
		want                  int
	}{
		{"plain", "", `algorithm = "leaky_bucket"`, 1},
		{"nodelay", "burst=12 nodelay", "algorithm = \"token_bucket\"\nburst = 13", 13},
		{"odd", "burst=12 delay=16", "algorithm = \"token_bucket\"\nburst = 13", 13},
	}
	var limits, zones, locations string
	for _, row := range rows {
		limits += fmt.Sprintf("[limit.%[1]s]\nmatch = { zone = \"%[1]s\" }\nkey = [\"ip\"]\nrate = \"1r/m\"\n%[2]s\n", row.name, row.limit)
		zones += fmt.Sprintf("limit_req_zone $binary_remote_addr zone=%s:1m rate=1r/m;\n", row.name)
		locations += fmt.Sprintf(`
			location /authz/%[1]s { set $authz_zone %[1]s; proxy_pass http://app; }
			location /nginx/%[1]s { auth_request off; limit_req zone=%[1]s %[2]s; proxy_pass http://app; }`, row.name, row.limitReq)
	}
	s := startSite(t, siteConf{
		limits: limits,
		http:   "limit_req_status 429;" + zones,
		server: "include authz/authz_server.conf;" + locations,
	})
	for _, row := range rows {
		want := strings.Repeat("200 ", row.want) + strings.TrimSuffix(strings.Repeat("429 ", 20-row.want), " ")
		for _, who := range []string{"nginx", "authz"} {
			if got := s.sendAll(t, 20, "GET /"+who+"/"+row.name); got != want {
				t.Errorf("%s as %s limits it:\n%s, want\n%s", row.name, who, got, want)
			}
		}
	}
}
