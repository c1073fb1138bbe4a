package main

import (
	"fmt"
	"strings"
)

// A series is calls of one kind: some before, to fill the buckets, and those that are measured.
type series struct {
	name    string
	command string // as INFO commandstats calls it
	checks  int    // a call
	before  int
	calls   int
	lanes   int // connections at once, when time is measured
	call    func(i int) []byte
	reply   string // how each measured reply begins
}

// A limit is a row of numbers for take and another one for the script of its algorithm.
type limit struct {
	name   string
	take   string // algorithm, a, b, c, cost
	single string // limit, window_us, burst or offset_us, cost
}

// The windows are long, so that nothing refills or ends meanwhile, but for "sliding_window, leaving",
// where whatever was admitted has left when the next request comes.
var limits = []limit{
	{"token_bucket", "1 1 3600000 3600000000000 1", "1000 3600000000 1000000 1"},
	{"leaky_bucket", "2 1 3600000 3600000000000 1", "1000 3600000000 999999 1"},
	{"fixed_window", "3 1000000 31622400000000 0 1", "1000000 31622400000000 0 1"},
	{"sliding_counter", "5 200 31622400000000 0 1", "200 31622400000000 0 1"},
	{"sliding_window", "4 1000 3600000000 0 1", "1000 3600000000 0 1"},
	{"sliding_window, leaving", "4 1000 1000 0 1", "1000 1000 0 1"},
}

const (
	clients = 512 // keys of each limit
	rounds  = 8   // how often each one comes before the measurement
)

func key(limit, client int) string {
	return fmt.Sprintf("authz:v1:{ip=198.51.100.%d}:api:l%d", 100+client%clients, limit)
}

// allSeries are the series for one folder of scripts. rows: its take lets checks share numbers.
func allSeries(sha map[string]string, rows bool) (all []series) {
	plain := func(name, reply string, words ...string) {
		all = append(all, series{name, strings.ToLower(words[0]), 1, clients, clients, 64, func(i int) []byte {
			if i < clients && words[0] != "INCR" {
				return command("SET", key(0, i), "1:3600000:1767225600000000")
			}
			return command(append([]string{words[0], key(0, i)}, words[1:]...)...)
		}, reply})
	}
	plain("GET", "$", "GET")
	plain("INCR", ":", "INCR")
	plain("SET PX", "+", "SET", "1:3600000:1767225600000000", "PX", "3600000")
	all = append(all, series{"EVALSHA return 1", "evalsha", 1, clients, clients, 64, func(int) []byte {
		return command("EVALSHA", sha["return 1"], "0")
	}, ":1"})
	for _, requests := range []int{8, 64} {
		one := takes(sha["least"], rows, "", requests, limits[:1])
		one.name, one.before, one.reply = fmt.Sprintf("the least that a script can do, %d keys", requests), clients*rounds/requests, "*"
		all = append(all, one)
	}
	for _, l := range limits {
		name, _, _ := strings.Cut(l.name, ",")
		all = append(all, series{l.name + ", its own script", "evalsha", 1, clients * rounds, clients, 64, func(i int) []byte {
			return command(append([]string{"EVALSHA", sha[name], "1", key(0, i)}, strings.Fields(l.single)...)...)
		}, "*4\r\n:1\r\n"})
	}
	take := func(name string, requests int, limits ...limit) series {
		return takes(sha["take"], rows, name, requests, limits)
	}
	for _, l := range limits {
		for _, requests := range []int{1, 8, 64} {
			all = append(all, take(l.name, requests, l))
		}
	}
	for _, requests := range []int{1, 8, 64} {
		all = append(all, take("token_bucket, fixed_window and token_bucket", requests, limits[0], limits[2], limits[0]))
	}
	for _, requests := range []int{1, 8, 64} {
		all = append(all, take("token_bucket, fixed_window and sliding_window", requests, limits[0], limits[2], limits[4]))
	}
	fresh := take("token_bucket, new keys", 64, limits[0])
	fresh.before = 0
	refused := take("token_bucket, refused", 64, limit{"", "1 1 3600000000 3600000000 1", ""})
	refused.reply = "*320\r\n:0\r\n:0\r\n"
	hot := take("token_bucket, all of one key", 64, limits[0])
	hot.call = func(int) []byte { return takeCall(sha["take"], rows, 0, 64, 0, limits[:1]) }
	return append(all, fresh, refused, hot)
}

// takes is a series of calls of take with so many requests, each with a check of every limit.
func takes(sha string, rows bool, name string, requests int, limits []limit) series {
	return series{
		name:    fmt.Sprintf("take, %d × %s", requests, name),
		command: "evalsha",
		checks:  requests * len(limits),
		before:  clients * rounds / requests,
		calls:   clients / requests,
		lanes:   max(2, 64/requests),
		call:    func(i int) []byte { return takeCall(sha, rows, i*requests, requests, 1, limits) },
		reply:   fmt.Sprintf("*%d\r\n:1\r\n:1\r\n", requests*(1+4*len(limits))),
	}
}

// takeCall is one call with requests of the clients first, first+step and so on, as the service
// writes it: the numbers of a limit once, and 5+i for the i-th of them from then on.
func takeCall(sha string, rows bool, first, requests, step int, limits []limit) []byte {
	keys := []string{"EVALSHA", sha, fmt.Sprint(requests * len(limits))}
	args := []string{"0"}
	for r := range requests {
		args = append(args, fmt.Sprint(len(limits)))
		for i, l := range limits {
			keys = append(keys, key(i, first+r*step))
			if r > 0 && rows {
				args = append(args, fmt.Sprint(6+i))
			} else {
				args = append(args, strings.Fields(l.take)...)
			}
		}
	}
	return command(append(keys, args...)...)
}
