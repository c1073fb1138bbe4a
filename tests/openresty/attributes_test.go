package openresty

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authz/tests/rig"
)

// keysLimits has every kind of key part in a key of its own, so that the keys charged show what is known
// of a request.
const keysLimits = `
	[defaults]
	ipv4_prefix = 24
	[limit.header]
	key = ["header:X-API-Key", "header:x-plan", "header:x_plan", "header:User-Agent", "header:cookie"]
	missing = "share"
	algorithm = "fixed_window"
	rate = "1000/h"
	[limit.names]
	key = ["cookie:session", "cookie:a", "query:q", "query:a b"]
	missing = "share"
	algorithm = "fixed_window"
	rate = "1000/h"
	[limit.request]
	key = ["ip", "host", "method", "zone"]
	missing = "share"
	algorithm = "fixed_window"
	rate = "1000/h"
	[limit.path]
	key = ["path:raw"]
	algorithm = "fixed_window"
	rate = "1000/h"
`

// TestARealRequestIsKeyedAsGoKeysIt sends requests with odd bytes and spellings to a real nginx and
// compares the keys that the pack charges with those that Go finds for the same bytes.
func TestARealRequestIsKeyedAsGoKeysIt(t *testing.T) {
	set := rig.Compile(t, keysLimits)
	n := rig.StartPackNginx(t, 1, `
		lua_shared_dict authz 1m;
		init_by_lua_block {
			package.loaded.pack = assert(require("resty.authz").new{policy = "limits.json"})
		}
		server {
			listen LISTEN;
			include authz/openresty.conf;
			underscores_in_headers on;
			location / {
				set $authz_zone "a zone";
				access_by_lua_block { require("pack").access() }
				content_by_lua_block {
					local keys = ngx.shared.authz:get_keys(0)
					ngx.shared.authz:flush_all()
					ngx.shared.authz:flush_expired()
					ngx.print(ngx.var.host, "\n", ngx.var.request_uri, "\n", table.concat(keys, "\n"))
				}
			}
		}`, map[string]string{"limits.json": string(set.JSON())})
	notSendable := regexp.MustCompile(`[\x00\r\n]`)
	r := dice{rand.New(rand.NewPCG(9, 0))}
	compared := 0
	for range 600 {
		q := r.rawRequest()
		q.ip, q.zone = "127.0.0.1", "a zone"
		if !regexp.MustCompile(`^[A-Z]+$`).MatchString(q.method) || notSendable.MatchString(q.uri+q.host) || strings.Contains(q.uri, " ") {
			continue
		}
		header := []string{"Host: " + q.host}
		for _, h := range q.headers {
			for i, line := range h.lines {
				h.lines[i] = strings.Trim(notSendable.ReplaceAllString(line, "?"), " \t")
				header = append(header, h.name+": "+h.lines[i])
			}
		}
		if r.in(2) {
			header = append(header, "X_PLAN: by underscore")
			q.headers = append(q.headers, packHeader{"X_PLAN", []string{"by underscore"}})
		}
		got := n.Send(t, q.method+" "+q.uri, "", header...)
		if got.Status != 200 || q.method == "HEAD" {
			continue // nginx itself refuses it
		}
		keys := strings.Split(got.Body, "\n")
		q.host, q.uri, keys = keys[0], keys[1], keys[2:] // as nginx has cut them out of the request
		slices.Sort(keys)
		var wantKeys []string
		for _, key := range regexp.MustCompile(`"redis_key":"([^"]*)"`).FindAllStringSubmatch(q.explain(set), -1) {
			wantKeys = append(wantKeys, key[1])
		}
		slices.Sort(wantKeys)
		if !slices.Equal(keys, wantKeys) {
			t.Fatalf("%q\nthe pack charges\n%s\nwant\n%s", q.line(), strings.Join(keys, "\n"), strings.Join(wantKeys, "\n"))
		}
		compared++
	}
	if compared < 200 {
		t.Errorf("%d requests are compared, want more", compared)
	}
}
