package faults

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"authz/tests/rig"
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
	at := address{port: rig.FreePort(t), user: "authz", password: secret + "-redis"}
	r := rig.StartRedis(t, "--port", at.port)
	r.MustDo(t, "acl", "setuser", "authz", "on", ">"+at.password, "+@all", "~*")
	heard := r.Monitor(t)

	service := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, limits), "--redis="+at.url(), "--redis-timeout=20s", "--log-level=debug", "--refusals-max=0")
	pack := rig.StartPack(t, nil, at.options(rig.Amply), rig.SiteConf{Limits: limits, Server: rig.SayOK})
	doors := []*rig.Door{service.Door(), pack.Door(t)}
	ask := func(d *rig.Door, want string) {
		t.Helper()
		got, err := d.Get("/?token="+secret+"&client_secret="+secret, header...)
		if err != nil {
			t.Fatal(err)
		}
		rig.Same(t, d.Name+" "+got, d.Name+" "+want)
	}
	ask(doors[0], "200")
	ask(doors[1], "200") // the same bucket: the digests are the same
	for _, d := range doors {
		ask(d, "429")
	}
	_, ready := service.Get(t, "/readyz")
	commands := heard()
	keys := r.Keys(t.Context(), "*").Val()
	r.MustDo(t, "acl", "setuser", "authz", "resetpass", ">another")
	r.MustDo(t, "client", "kill", "user", "authz")
	rig.Await(t, "refused account", func() bool { got, _ := doors[0].Get("/"); return strings.HasSuffix(got, "local") })
	rig.Await(t, "refused account", func() bool { got, _ := doors[1].Get("/"); return strings.HasSuffix(got, "local") })
	r.Kill(t)
	for _, d := range doors {
		ask(d, "200 local")
	}
	_, state := service.Get(t, "/readyz")
	for where, text := range map[string]string{"the commands": commands, "the keys": fmt.Sprint(keys), "the log of the service": service.Logged(),
		"the log of nginx": requestLine.ReplaceAllString(pack.Read(t, "error.log"), ""), "the metrics of the service": doors[0].Metrics(t), "the metrics of the pack": doors[1].Metrics(t),
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
