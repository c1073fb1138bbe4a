package tests

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// What clients keep secret, and what authz logs in with, is in nothing that anybody may come to see, however
// it goes: in no command that Redis is sent, no key, no log, no metric, no state. (C046)
func TestASecretInEveryPlaceIsSeenInNone(t *testing.T) {
	const secret = "s3cr3t"
	const limits = `
		[limit.all]
		key       = ["header:Authorization", "header:X-API-Key", "header:X-Auth-Token", "header:X-Password", "cookie:session", "query:token", "query:client_secret"]
		missing   = "share"
		algorithm = "fixed_window"
		rate      = "2/366d"
		[override.all."a|b|c|d|e|f|` + secret + `-override"]
		rate      = "3/366d"`
	header := []string{"Authorization: Bearer " + secret, "X-API-Key: " + secret, "X-Auth-Token: " + secret, "X-Password: " + secret, "Cookie: session=" + secret}
	at := address{port: freePort(t), user: "authz", password: secret + "-redis"}
	r := startRedis(t, "--port", at.port)
	r.do(t, "acl", "setuser", "authz", "on", ">"+at.password, "+@all", "~*")
	heard := r.monitor(t)

	service := startAuthz(t, "--limits="+limitsFile(t, limits), "--redis="+at.url(), "--redis-timeout=20s", "--log-level=debug", "--refusals-max=0")
	pack := startPack(t, nil, at.options(amply), siteConf{limits: limits, server: sayOK})
	doors := []*door{service.door(), pack.door(t)}
	ask := func(d *door, want string) {
		t.Helper()
		got, err := d.get("/?token="+secret+"&client_secret="+secret, header...)
		if err != nil {
			t.Fatal(err)
		}
		same(t, d.name+" "+got, d.name+" "+want)
	}
	ask(doors[0], "200")
	ask(doors[1], "200") // the same bucket: the digests are the same
	for _, d := range doors {
		ask(d, "429")
	}
	_, ready := service.get(t, "/readyz")
	commands := heard()
	keys := r.Keys(t.Context(), "*").Val()
	r.do(t, "acl", "setuser", "authz", "resetpass", ">another")
	r.do(t, "client", "kill", "user", "authz")
	await(t, "refused account", func() bool { got, _ := doors[0].get("/"); return strings.HasSuffix(got, "local") })
	await(t, "refused account", func() bool { got, _ := doors[1].get("/"); return strings.HasSuffix(got, "local") })
	r.kill(t)
	for _, d := range doors {
		ask(d, "200 local")
	}
	_, state := service.get(t, "/readyz")
	for where, text := range map[string]string{"the commands": commands, "the keys": fmt.Sprint(keys), "the log of the service": service.logged(),
		"the log of nginx": requestLine.ReplaceAllString(pack.read(t, "error.log"), ""), "the metrics of the service": doors[0].metrics(t), "the metrics of the pack": doors[1].metrics(t),
		"the state": ready + state} {
		if text == "" || strings.Contains(text, secret) {
			t.Errorf("%s, want them without %s:\n%s", where, secret, text)
		}
	}
	if digest := "authz:v1:{*"; !strings.Contains(commands, digest) || len(keys) != 1 {
		t.Errorf("%d keys, want one, and its %s among the commands", len(keys), digest)
	}
}

// requestLine is what nginx itself adds to all that is logged during a request.
var requestLine = regexp.MustCompile(`, request: "[^"]*"`)

// monitor listens to all that Redis is told from now on. What it returns ends that, and returns all of it.
func (r *redisServer) monitor(t *testing.T) (heard func() string) {
	t.Helper()
	c, err := net.Dial("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "MONITOR\r\n")
	lines := bufio.NewReader(c)
	if line, err := lines.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatal(line, err)
	}
	var all strings.Builder
	var listening sync.WaitGroup
	listening.Go(func() {
		defer c.Close()
		for {
			line, err := lines.ReadString('\n')
			if err != nil || strings.Contains(line, "that is all") {
				return
			}
			all.WriteString(line)
		}
	})
	return func() string {
		r.do(t, "echo", "that is all")
		listening.Wait()
		return all.String()
	}
}
