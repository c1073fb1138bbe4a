package tests

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// seen is what was decided, in a header.
const seen = `
	add_header X-Seen "$authz_status,$authz_limit,$authz_degraded" always;
	location / { proxy_pass http://app; }`

// As TestOnErrorAnswersForARedisThatIsStopped.
func TestOnErrorAnswersInThePackToo(t *testing.T) {
	r := startRedis(t)
	s := startPack(t, nil, fmt.Sprintf(`admitted_headers = true, redis = {socket = "%s", timeout = "1s"}`, r.socket), siteConf{limits: threeAnswers, server: `
		add_header X-Seen-Limit $authz_limit always;
		add_header X-Seen-Degraded $authz_degraded always;
		location / { proxy_pass http://app; }`})
	r.stopUnder(t, func(path string) string {
		return strings.ReplaceAll(s.send(t, "GET "+path, "").show("X-Seen-Limit", "X-Seen-Degraded", "RateLimit", "Retry-After"), "X-Seen-", "X-Authz-")
	})
	r.signal(t, syscall.SIGCONT)
	await(t, "answer of the Redis that runs again", func() bool { return s.send(t, "GET /deny", "").status == 200 })
	same(t, s.metric(t, `authz_degraded_total{on_error="allow"}`), "1")
	same(t, s.metric(t, `authz_degraded_total{on_error="local"}`), "4")
	if s.metric(t, `authz_store_errors_total{kind="timeout"}`) == "0" {
		t.Error("no store error of kind timeout in the metrics")
	}
	if lines := countLines(s.read(t, "error.log"), "Redis cannot answer (timeout), on_error decides"); lines != 1 {
		t.Errorf("%d lines in the log, want one for all", lines)
	}
}

// As TestAFullRedisOpensNothing: a client that could fill Redis would switch off a limit that says "allow".
func TestAFullRedisOpensNothingInThePack(t *testing.T) {
	ctx := context.Background()
	r := startRedis(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	s := startPack(t, r, "", siteConf{limits: strings.ReplaceAll(threeAnswers, "100/d", "8/d"), server: seen})
	for i := 0; r.Set(ctx, fmt.Sprint("filler", i), strings.Repeat("x", 10_000), 0).Err() == nil; i++ {
	}
	var got []string
	for range 3 {
		got = append(got, s.send(t, "GET /allow", "").show("X-Seen"))
	}
	want := "200 X-Seen=200,allow,local 200 X-Seen=200,allow,local 429 X-Seen=429,allow,local"
	same(t, strings.Join(got, " "), want)
	same(t, s.metric(t, `authz_store_errors_total{kind="oom"}`), "3")
}

// C139: a hundred thousand callers fill a dict of a megabyte. None of them is refused for it or gets an
// error; what is dropped is what was used longest ago, and counted.
func TestAFullDictDropsTheOldestAndFailsNobody(t *testing.T) {
	for _, algorithm := range algorithms {
		burst := ""
		if algorithm == "token_bucket" {
			burst = "burst = 2"
		}
		if algorithm == "leaky_bucket" {
			continue // it would hold the second request of a caller
		}
		s := startPack(t, nil, "", siteConf{
			limits: fmt.Sprintf(`
				[limit.each]
				match = { path = "/caller" }
				key = ["header:X-Caller"]
				missing = "skip"
				algorithm = "%s"
				rate = "2/366d"
				%s`, algorithm, burst),
			server: `
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
			dict: "1m",
		})
		ask := func() string { return fmt.Sprint(s.send(t, "GET /caller", "", "X-Caller: me").status) }
		same(t, algorithm+ask()+ask()+ask(), algorithm+"200200429")
		same(t, s.send(t, "GET /flood", "").body, "all allowed")
		same(t, algorithm+ask()+ask()+ask(), algorithm+"200200429") // forgotten, like any new caller
		if s.metric(t, `authz_dict_writes_total{event="evicted"}`) == "0" {
			t.Errorf("%s: no evictions counted", algorithm)
		}
		same(t, s.metric(t, `authz_dict_writes_total{event="full"}`), "0")
	}
}

// The longest log that there may be, in a dict that has little room for it.
func TestALongLogFindsItsRoom(t *testing.T) {
	s := startPack(t, nil, "", siteConf{
		limits: `
			[limit.each]
			key = []
			algorithm = "fixed_window"
			rate = "2/366d"`,
		server: `
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
		dict: "1m",
	})
	same(t, s.send(t, "GET /logs", "").body, "least 0")
	same(t, s.metric(t, `authz_dict_writes_total{event="full"}`), "0")
}
