package main

import (
	"fmt"
	"strings"
)

// A series is calls of one kind: some before, to fill the buckets, and those that are counted.
type series struct {
	name   string
	checks int // a call
	before int
	calls  int
	call   func(i int) []byte
	reply  string // how each counted reply begins
}

// A limit is a row of numbers for take and another one for the script of its algorithm.
type limit struct {
	name   string
	take   string // algorithm, a, b, c
	single string // limit, window_us, burst or offset_us
}

// The windows are long, so that nothing refills or ends meanwhile, but for "sliding_window, leaving",
// where whatever was admitted has left when the next request comes.
var limits = []limit{
	{"token_bucket", "1 1 3600000 3600000000000", "1000 3600000000 1000000"},
	{"leaky_bucket", "2 1 3600000 3600000000000", "1000 3600000000 999999"},
	{"fixed_window", "3 1000000 31622400000000 0", "1000000 31622400000000 0"},
	{"sliding_counter", "5 200 31622400000000 0", "200 31622400000000 0"},
	{"sliding_window", "4 1000 3600000000 0", "1000 3600000000 0"},
	{"sliding_window, leaving", "4 1000 1000 0", "1000 1000 0"},
}

const (
	clients = 512 // keys of each limit
	rounds  = 8   // how often each one comes before the count begins
)

func key(limit, client int) string {
	return fmt.Sprintf("authz:v1:{ip=198.51.100.%d}:api:l%d", 100+client%clients, limit)
}

func allSeries(sha map[string]string) (all []series) {
	all = append(all,
		series{"GET of nothing", 1, 10, 100, func(int) []byte { return command("GET", "nothing") }, "$-1"},
		series{"GET", 1, clients, clients, floor("GET"), "$"},
		series{"INCR", 1, clients, clients, func(i int) []byte { return command("INCR", key(0, i)) }, ":"},
		series{"SET PX", 1, clients, clients, func(i int) []byte { return command("SET", key(0, i), "1:3600000:1767225600000000", "PX", "3600000") }, "+"},
		series{"EVALSHA return 1", 1, 100, 500, func(int) []byte { return command("EVALSHA", sha["return 1"], "0") }, ":1"},
	)
	for _, l := range limits {
		name, _, _ := strings.Cut(l.name, ",")
		all = append(all, series{l.name + ", its own script", 1, clients * rounds, clients, func(i int) []byte {
			words := append([]string{"EVALSHA", sha[name], "1", key(0, i)}, strings.Fields(l.single+" 1")...)
			return command(words...)
		}, "*4\r\n:1\r\n"})
	}
	for _, l := range limits {
		for _, requests := range []int{1, 8, 64} {
			all = append(all, takes(sha["take"], l.name, requests, l))
		}
	}
	three := []limit{limits[0], limits[2], limits[0]}
	log := []limit{limits[0], limits[2], limits[4]}
	for _, requests := range []int{1, 8, 64} {
		all = append(all, takes(sha["take"], "two token_bucket and fixed_window", requests, three...))
	}
	for _, requests := range []int{1, 8, 64} {
		all = append(all, takes(sha["take"], "token_bucket, fixed_window and sliding_window", requests, log...))
	}
	fresh := takes(sha["take"], "token_bucket, new keys", 64, limits[0])
	fresh.before = 0
	refused := takes(sha["take"], "token_bucket, refused", 64, limit{"", "1 1 3600000 3600000", ""})
	refused.reply = "*320\r\n:0\r\n:0\r\n"
	hot := takes(sha["take"], "token_bucket, one key", 64, limits[0])
	hot.call = func(int) []byte { return takeCall(sha["take"], 0, 64, 0, limits[0]) }
	return append(all, fresh, refused, hot)
}

func floor(name string) func(i int) []byte {
	return func(i int) []byte {
		if i < clients {
			return command("SET", key(0, i), "1:3600000:1767225600000000")
		}
		return command(name, key(0, i))
	}
}

// takes is a series of calls of take with so many requests, each with a check of every limit.
func takes(sha, name string, requests int, limits ...limit) series {
	s := series{
		name:   fmt.Sprintf("take, %d × %s", requests, name),
		checks: requests * len(limits),
		before: clients * rounds / requests,
		calls:  clients / requests,
		reply:  fmt.Sprintf("*%d\r\n:1\r\n:1\r\n", requests*(1+4*len(limits))),
	}
	s.call = func(i int) []byte { return takeCall(sha, i*requests, requests, 1, limits...) }
	return s
}

// takeCall is one call with requests of the clients first, first+step and so on.
func takeCall(sha string, first, requests, step int, limits ...limit) []byte {
	keys := []string{"EVALSHA", sha, fmt.Sprint(requests * len(limits))}
	args := []string{"0"}
	for r := range requests {
		args = append(args, fmt.Sprint(len(limits)))
		for i, l := range limits {
			keys = append(keys, key(i, first+r*step))
			args = append(append(args, strings.Fields(l.take)...), "1")
		}
	}
	return command(append(keys, args...)...)
}
