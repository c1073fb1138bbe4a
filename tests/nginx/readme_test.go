package nginx

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authz/tests/rig"
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
	app := rig.StartApp(t)
	authz := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, onceOnly))
	upstream := func(name, addr string) string {
		return rig.Edited(t, name, "server "+addr+";", "server "+authz.Addr+";")
	}
	page := strings.Replace(readmeBlock(t, "error_page 429"), "/var/www/errors", "html", 1)
	ownUpstream := strings.NewReplacer("10.0.0.5:7429", authz.Addr, "server 10.0.0.6:7429 fail_timeout=1s;", "").Replace(readmeBlock(t, "upstream authz {"))
	for i, c := range []struct{ upstream, more, body string }{
		{upstream("authz_upstream_tcp.conf", "127.0.0.1:7429"), "", "429 Too Many Requests"},
		{upstream("authz_upstream_unix.conf", "unix:/run/authz/authz.sock"), "", "429 Too Many Requests"},
		{ownUpstream, page, "not so fast"},
	} {
		conf := readmeBlock(t, "authz_upstream_tcp.conf")
		for _, r := range [][2]string{
			{"include authz/authz_upstream_tcp.conf;", c.upstream},
			{"listen 80;", "listen LISTEN;" + c.more},
			{"127.0.0.1:8080", app.Addr},
		} {
			if strings.Count(conf, r[0]) != 1 {
				t.Fatalf("the README's lines have not once %q:\n%s", r[0], conf)
			}
			conf = strings.Replace(conf, r[0], r[1], 1)
		}
		n := rig.StartNginx(t, conf, map[string]string{"html/limited.html": "not so fast"})
		n.From = fmt.Sprintf("127.0.0.%d", 2+i)
		if got := n.Send(t, "GET /", "", "Host: example.com"); got.Body != "app GET / 0 bytes" {
			t.Errorf("the first request: %d %q", got.Status, got.Body)
		}
		got := n.Send(t, "GET /", "", "Host: example.com")
		if got.Show("X-Authz-Limit") != "429 X-Authz-Limit=once" || !strings.Contains(got.Body, c.body) {
			t.Errorf("the second request: %s %q, want a 429 with %q", got.Show("X-Authz-Limit"), got.Body, c.body)
		}
	}
}

// The rows about bursts in the README's table for people who come from limit_req, against limit_req
// itself: of 20 requests at once both refuse as many. nginx counts by 1r/m, of which nothing drains in a
// test; authz by a clock that stands still, since a leaky bucket holds for less than a second.
// R06: a delay above the burst never delays.
func TestALimitReqHasItsEqual(t *testing.T) {
	rows := []struct {
		name, limitReq, limit string
		refused               int
	}{
		{"plain", "", `algorithm = "leaky_bucket"`, 19},
		{"queue", "burst=4", "algorithm = \"leaky_bucket\"\nburst = 4", 15},
		{"nodelay", "burst=12 nodelay", "algorithm = \"token_bucket\"\nburst = 13", 7},
		{"delay", "burst=12 delay=8", "algorithm = \"token_bucket\"\nburst = 13", 7},
		{"odd", "burst=12 delay=16", "algorithm = \"token_bucket\"\nburst = 13", 7},
	}
	var limits, zones, locations string
	for _, row := range rows {
		limits += fmt.Sprintf("[limit.%[1]s]\nmatch = { zone = \"%[1]s\" }\nkey = [\"ip\"]\nrate = \"10r/s\"\n%[2]s\n", row.name, row.limit)
		zones += fmt.Sprintf("limit_req_zone $binary_remote_addr zone=%s:1m rate=1r/m;\n", row.name)
		locations += fmt.Sprintf(`
			location /authz/%[1]s { set $authz_zone %[1]s; proxy_pass http://app; }
			location /nginx/%[1]s { auth_request off; limit_req zone=%[1]s %[2]s; proxy_pass http://app; }`, row.name, row.limitReq)
	}
	r, clock := rig.StartRedisWithClock(t)
	clock.Stop(t, time.Unix(1_800_000_000, 0))
	s := rig.StartSite(t, rig.SiteConf{
		Limits: limits,
		Redis:  r,
		Http:   "log_format rows '$request_uri $status'; limit_req_status 429;" + zones,
		Server: "include authz/authz_server.conf; access_log access.log rows;" + locations,
	})
	for _, row := range rows {
		for _, who := range []string{"nginx", "authz"} {
			var refused atomic.Int64
			var clients [20]net.Conn
			for i := range clients {
				clients[i] = s.Dial(t, s.Addr)
				fmt.Fprintf(clients[i], "GET /%s/%s HTTP/1.1\r\nHost: site.test\r\n\r\n", who, row.name)
				go func() {
					response, err := http.ReadResponse(bufio.NewReader(clients[i]), nil)
					if err == nil && response.StatusCode == 429 {
						refused.Add(1)
					}
				}()
			}
			rig.Await(t, fmt.Sprint(row.refused, " refusals of ", row.name, " by ", who), func() bool { return refused.Load() >= int64(row.refused) })
			for _, c := range clients {
				c.Close() // nginx holds some of them for minutes
			}
		}
	}
	s.Quit(t)
	log := s.Read(t, "access.log")
	for _, row := range rows {
		for _, who := range []string{"nginx", "authz"} {
			all, refused := rig.CountLines(log, "/"+who+"/"+row.name+" "), rig.CountLines(log, "/"+who+"/"+row.name+" 429")
			if all != 20 || refused != row.refused {
				t.Errorf("%s as %s limits it: %d of %d refused, want %d of 20", row.name, who, refused, all, row.refused)
			}
		}
	}
}
