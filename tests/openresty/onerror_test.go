package openresty

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"authz/tests/rig"
)

// seen is what was decided, in a header.
const seen = `
	add_header X-Seen "$authz_status,$authz_limit,$authz_degraded" always;
	location / { proxy_pass http://app; }`

// As TestOnErrorAnswersForARedisThatIsStopped.
func TestOnErrorAnswersInThePackToo(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.StartPack(t, nil, fmt.Sprintf(`admitted_headers = true, redis = {socket = "%s", timeout = "1s"}`, r.Socket), rig.SiteConf{Limits: rig.ThreeAnswers, Server: `
		add_header X-Seen-Limit $authz_limit always;
		add_header X-Seen-Degraded $authz_degraded always;
		location / { proxy_pass http://app; }`})
	r.StopUnder(t, func(path string) string {
		return strings.ReplaceAll(s.Send(t, "GET "+path, "").Show("X-Seen-Limit", "X-Seen-Degraded", "RateLimit", "Retry-After"), "X-Seen-", "X-Authz-")
	})
	r.Signal(t, syscall.SIGCONT)
	rig.Await(t, "answer of the Redis that runs again", func() bool { return s.Send(t, "GET /deny", "").Status == 200 })
	rig.Same(t, s.Metric(t, `authz_degraded_total{on_error="allow"}`), "1")
	rig.Same(t, s.Metric(t, `authz_degraded_total{on_error="local"}`), "4")
	if s.Metric(t, `authz_store_errors_total{kind="timeout"}`) == "0" {
		t.Error("no store error of kind timeout in the metrics")
	}
	if lines := rig.CountLines(s.Read(t, "error.log"), "Redis cannot answer (timeout), on_error decides"); lines != 1 {
		t.Errorf("%d lines in the log, want one for all", lines)
	}
}

// As TestAFullRedisOpensNothing: a client that could fill Redis would switch off a limit that says "allow".
func TestAFullRedisOpensNothingInThePack(t *testing.T) {
	ctx := context.Background()
	r := rig.StartRedis(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	s := rig.StartPack(t, r, "", rig.SiteConf{Limits: strings.ReplaceAll(rig.ThreeAnswers, "100/d", "8/d"), Server: seen})
	for i := 0; r.Set(ctx, fmt.Sprint("filler", i), strings.Repeat("x", 10_000), 0).Err() == nil; i++ {
	}
	var got []string
	for range 3 {
		got = append(got, s.Send(t, "GET /allow", "").Show("X-Seen"))
	}
	want := "200 X-Seen=200,allow,local 200 X-Seen=200,allow,local 429 X-Seen=429,allow,local"
	rig.Same(t, strings.Join(got, " "), want)
	rig.Same(t, s.Metric(t, `authz_store_errors_total{kind="oom"}`), "3")
}

// C139: a hundred thousand callers fill a dict of a megabyte. None of them is refused for it or gets an
// error; what is dropped is what was used longest ago, and counted.
func TestAFullDictDropsTheOldestAndFailsNobody(t *testing.T) {
	for _, algorithm := range rig.Algorithms {
		burst := ""
		if algorithm == "token_bucket" {
			burst = "burst = 2"
		}
		if algorithm == "leaky_bucket" {
			continue // it would hold the second request of a caller
		}
		s := rig.StartPack(t, nil, "", rig.SiteConf{
			Limits: fmt.Sprintf(`
				[limit.each]
				match = { path = "/caller" }
				key = ["header:X-Caller"]
				missing = "skip"
				algorithm = "%s"
				rate = "2/366d"
				%s`, algorithm, burst),
			Server: `
				location = /flood {
					access_by_lua_block { }
					content_by_lua_block {
						for i = 1, 20000 do
							local r = authz.` + algorithm + `("flood" .. i, {limit = 2, window_us = 31622400000000})
							if not r.allowed then ngx.say("refused ", i) end
						end
						ngx.print("all allowed")
					}
				}
				location / { proxy_pass http://app; }`,
			Dict: "1m",
		})
		ask := func() string { return fmt.Sprint(s.Send(t, "GET /caller", "", "X-Caller: me").Status) }
		rig.Same(t, algorithm+ask()+ask()+ask(), algorithm+"200200429")
		rig.Same(t, s.Send(t, "GET /flood", "").Body, "all allowed")
		rig.Same(t, algorithm+ask()+ask()+ask(), algorithm+"200200429") // forgotten, like any new caller
		if s.Metric(t, `authz_dict_writes_total{event="evicted"}`) == "0" {
			t.Errorf("%s: no evictions counted", algorithm)
		}
		rig.Same(t, s.Metric(t, `authz_dict_writes_total{event="full"}`), "0")
	}
}

// The longest log that there may be, in a dict that has little room for it.
func TestALongLogFindsItsRoom(t *testing.T) {
	s := rig.StartPack(t, nil, "", rig.SiteConf{
		Limits: `
			[limit.each]
			key = []
			algorithm = "fixed_window"
			rate = "2/366d"`,
		Server: `
			location = /logs {
				access_by_lua_block { }
				content_by_lua_block {
					local least = 10000
					for key = 1, 40 do
						for i = 1, 100 do
							local r = authz.sliding_window("log" .. key, {limit = 10000, window_us = 31622400000000, cost = 100})
							if not r.allowed then ngx.say("refused") end
							least = math.min(least, r.remaining)
						end
					end
					ngx.print("least ", least)
				}
			}`,
		Dict: "1m",
	})
	rig.Same(t, s.Send(t, "GET /logs", "").Body, "least 0")
	rig.Same(t, s.Metric(t, `authz_dict_writes_total{event="full"}`), "0")
}
