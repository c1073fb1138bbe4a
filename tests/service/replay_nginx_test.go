package service

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"authz/internal/replay"
	"authz/internal/replay/accesslog"
	"authz/limits"
	"authz/nginx"
	"authz/tests/rig"
)

// spoken are requests with what a log has to escape: a target, and the agent that sends it.
var spoken = []struct{ target, agent string }{
	{"/plain?x=1", "curl/8.5.0"},
	{"/slash/", "curl/8.5.0"},
	{"/quoted%22\"path\"", `a "quoted" agent`},
	{`/back\slash`, `C:\x22\u0041\" "`},
	{"/caf\xc3\xa9", "\xe2\x82\xac and \xff\x80"},
	{"/%E2%82%AC", "tab\there"},
	{"/a//b/../c", "[10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\""},
	{"http://site.test/whole?url", "-"},
	{"/none", ""},
}

const loggingNginx = `
		log_format text '$remote_addr [$time_iso8601] "$request" "$http_user_agent" $status';
		log_format coded escape=json '{"at":$msec,"time":"$time_local","addr":"$remote_addr","request":"$request_method $request_uri HTTP","http_user_agent":"$http_user_agent"}';
		log_format named escape=json '{"msec":$msec,"remote_addr":"$remote_addr","method":"$request_method","request_uri":"$request_uri","http_user_agent":"$http_user_agent"}';
		log_format labels 'time:$time_iso8601\thost:$remote_addr\treq:$request\tua:$http_user_agent';
		access_log combined.log combined;
		access_log text.log text;
		access_log coded.log coded;
		access_log named.log named;
		access_log labels.log labels;
		server { listen LISTEN; return 204; }`

// What nginx logs is read as it was sent, in any of its escapings; each key has its request.
func TestReplayReadsWhatNginxWrites(t *testing.T) {
	n := rig.StartNginx(t, loggingNginx, nil)
	set, err := limits.Load("authz", rig.LimitsFile(t, `
		[limit.a]
		key       = ["path:raw", "header:User-Agent"]
		missing   = "share"
		algorithm = "fixed_window"
		rate      = "1/m"`))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, s := range spoken {
		if got := n.Send(t, "GET "+s.target, "", "User-Agent: "+s.agent); got.Status != 204 {
			t.Fatalf("%q: nginx answers %d", s.target, got.Status)
		}
		want = append(want, keyOf(t, set, s.target, s.agent))
	}
	for _, junk := range []string{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n"} {
		c := n.Dial(t, n.Addr)
		io.WriteString(c, junk)
		io.ReadAll(c)
		c.Close()
	}
	n.Quit(t)
	slices.Sort(want)
	conf, err := nginx.Parse("nginx.conf", n.Read(t, "nginx.conf"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(log, format string) {
		t.Helper()
		o := replay.Options{Limits: set, ReorderUS: 5e6}
		if format != "" {
			if o.Format, err = accesslog.FormatFrom(conf, format); err != nil {
				t.Fatal(err)
			}
		}
		text := n.Read(t, log)
		r, err := replay.Run(o, []replay.Log{{Name: log, From: strings.NewReader(text)}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, k := range r.Policy.Limits[0].TopRequests {
			if k.Requests != 1 {
				t.Errorf("%s: %+v, want a request each", log, k)
			}
			got = append(got, k.Key)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || r.Logs[0].Lines != int64(len(spoken)+2) || r.UnknownAddress != 0 {
			t.Errorf("%s: %+v\ngot\n%s\nwant\n%s\nof\n%s", log, r.Logs[0], strings.Join(got, "\n"), strings.Join(want, "\n"), text)
		}
	}
	check("combined.log", "")
	check("text.log", "text")
	check("named.log", "")
	check("labels.log", "")
	check("labels.log", "labels")
	check("coded.log", "coded")
}

// keyOf is the key of a request that the service is asked about.
func keyOf(t *testing.T, set *limits.Set, target, agent string) string {
	t.Helper()
	path, query, ok := limits.Target(nil, []byte(strings.TrimPrefix(target, "http://site.test")))
	if !ok {
		t.Fatalf("%q: not a target", target)
	}
	var m limits.Match
	set.Match(&limits.Attrs{Path: path, Query: query, Headers: [][]byte{bytes.TrimSpace([]byte(strings.TrimPrefix(agent, "-")))}}, &m)
	if len(m.Checks) != 1 {
		t.Fatalf("%q: %d checks, want 1", target, len(m.Checks))
	}
	return string(m.Checks[0].Identity())
}
