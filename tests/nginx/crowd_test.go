package nginx

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"authz/tests/rig"
)

// 64 clients at once, through nginx and two instances with one Redis: each algorithm admits exactly its
// limit, not one more. The windows are so long that nothing drains meanwhile.
func TestACrowdIsAdmittedExactlyUpToTheLimit(t *testing.T) {
	limits := ""
	wanted := map[string]int{"token_bucket": 100, "leaky_bucket": 1, "fixed_window": 100, "sliding_window": 100, "sliding_counter": 100}
	for algorithm := range wanted {
		limits += fmt.Sprintf(`
			[limit.%[1]s]
			match     = { path = "/%[1]s" }
			key       = []
			algorithm = "%[1]s"
			rate      = "100/366d"`, algorithm)
	}
	dir := rig.SocketDir(t)
	sockets := [2]string{filepath.Join(dir, "one.sock"), filepath.Join(dir, "two.sock")}
	s := rig.StartSite(t, rig.SiteConf{
		Limits: limits,
		Server: rig.ClosedServer,
		Serve:  []string{"--listen=unix:" + sockets[0]},
		Upstream: fmt.Sprintf(`upstream authz {
			server unix:%s;
			server unix:%s;
			keepalive 64;
		}`, sockets[0], sockets[1]),
	})
	second := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, limits), "--listen=unix:"+sockets[1],
		"--redis="+s.Redis.URL(), "--redis-timeout=20s")

	const clients, each = 64, 5
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}
	defer client.CloseIdleConnections()
	for algorithm, want := range wanted {
		var admitted, limited atomic.Int64
		var crowd sync.WaitGroup
		for range clients {
			crowd.Go(func() {
				for range each {
					response, err := client.Get("http://" + s.Addr + "/" + algorithm)
					if err != nil {
						t.Error(err)
						return
					}
					switch rig.ReadAnswer(t, response).Status {
					case 200:
						admitted.Add(1)
					case 429:
						limited.Add(1)
					}
				}
			})
		}
		crowd.Wait()
		if admitted.Load() != int64(want) || admitted.Load()+limited.Load() != clients*each {
			t.Errorf("%s: %d admitted and %d limited of %d, want %d admitted", algorithm, admitted.Load(), limited.Load(), clients*each, want)
		}
	}
	checks := 0
	for _, instance := range []*rig.AuthzServer{s.Authz, second} {
		for line := range strings.Lines(instance.Metrics(t, "authz_requests_total{")) {
			n, _ := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]))
			checks += n
		}
	}
	if want := clients * each * len(wanted); checks != want {
		t.Errorf("%d checks, want %d: one for each request", checks, want)
	}
	for i, instance := range []*rig.AuthzServer{s.Authz, second} {
		if line := `authz_requests_total{verdict="limited"} `; strings.Contains(instance.Metrics(t, line), " 0\n") {
			t.Errorf("instance %d of 2 has limited nobody: all went to the other", i+1)
		}
	}
}

// C018: a page and its 40 assets are 41 checks; in the third view 18 of them pass.
func TestAPageOfFortyAssetsIsFortyOneChecks(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Server: rig.ClosedServer, Limits: `
		[limit.user]
		key       = ["cookie:session"]
		missing   = "skip"
		algorithm = "fixed_window"
		rate      = "100/366d"
		[limit.api]
		match     = { path = "/api/**" }
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "100/366d"`})
	view := func(header string) (admitted int) {
		for asset := range 41 {
			if s.Send(t, fmt.Sprintf("GET /page/%d", asset), "", header).Status == 200 {
				admitted++
			}
		}
		return admitted
	}
	got := fmt.Sprint(view("Cookie: session=a"), view("Cookie: session=a"), view("Cookie: session=a"))
	if got != "41 41 18" {
		t.Errorf("three views: %s, want 41 41 18", got)
	}
	asked := s.Asked(t)
	if got := view("Accept: */*"); got != 41 {
		t.Errorf("a view that meets no limit: %d, want 41", got)
	}
	if got := s.Asked(t); got != asked {
		t.Errorf("a view that meets no limit costs Redis %d, want nothing", got-asked)
	}
}

// C031: clients that leave while their answer is held. Each is charged once, nothing is tried again, and
// when the holds are over nothing is left of them.
func TestAClientThatLeavesIsChargedOnce(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Server: rig.ClosedServer, Limits: `
		[limit.held]
		match     = { path = "/held" }
		key       = ["ip"]
		algorithm = "leaky_bucket"
		rate      = "100/s"
		burst     = 40
		[limit.count]
		match     = { path = "/held" }
		key       = []
		algorithm = "fixed_window"
		rate      = "1000/366d"`})
	const clients, counted = 30, "authz:v1:{count}:count:fw"
	var left []net.Conn
	for range clients {
		c := s.Dial(t, s.Addr)
		fmt.Fprint(c, "GET /held HTTP/1.1\r\nHost: site.test\r\n\r\n")
		left = append(left, c)
	}
	rig.Await(t, "charge for every client", func() bool { return s.Counted(t, counted) >= clients })
	for _, c := range left {
		c.Close()
	}
	if got := s.Send(t, "GET /other", "").Status; got != 200 {
		t.Errorf("the next client: %d, want 200", got)
	}
	s.Quit(t)
	if got := s.Counted(t, counted); got != clients {
		t.Errorf("%d charged for %d clients", got, clients)
	}
	if got := rig.CountLines(s.Read(t, "error.log"), "upstream"); got != 0 {
		t.Errorf("error.log has %d lines about authz, want none:\n%s", got, s.Read(t, "error.log"))
	}
	if got := rig.CountLines(s.Read(t, "access.log"), `" 499 `); got == 0 {
		t.Error("access.log has no 499: no client left while it was held")
	}
	if code := s.Authz.Stop(t); code != 0 {
		t.Errorf("authz ends with %d, want 0: nothing is held any more", code)
	}
}
