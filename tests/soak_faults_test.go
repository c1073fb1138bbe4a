package tests

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// A soakFault happens on one of the ways, or to the Redis behind all of them.
type soakFault struct {
	name       string
	begin, end func(t *testing.T, s *soak, w *way)
}

func nothing(*testing.T, *soak, *way) {}

// onWay is a poison of one way. It comes with new connections: toxiproxy bears no other under load.
func onWay(name, direction, kind, attributes string) soakFault {
	return soakFault{name, func(t *testing.T, _ *soak, w *way) { w.close(); w.open(t, toxic(direction, kind, attributes)) },
		func(t *testing.T, _ *soak, w *way) { w.close(); w.open(t) }}
}

// said is commands to Redis.
func said(commands ...[]any) func(*testing.T, *soak, *way) {
	return func(t *testing.T, s *soak, _ *way) {
		t.Helper()
		for _, c := range commands {
			s.redis.do(t, c...)
		}
	}
}

var soakFaults = []soakFault{
	{"refused port", func(_ *testing.T, _ *soak, w *way) { w.close() }, func(t *testing.T, _ *soak, w *way) { w.open(t) }},
	onWay("black hole for requests", "upstream", "timeout", `"timeout": 0`),
	onWay("black hole for replies", "downstream", "timeout", `"timeout": 0`),
	onWay("latency of 200 ms", "downstream", "latency", `"latency": 200`),
	onWay("latency around the timeout", "downstream", "latency", `"latency": 45, "jitter": 20`),
	onWay("bandwidth of 1 KB/s", "upstream", "bandwidth", `"rate": 1`),
	onWay("cut in mid-reply", "downstream", "limit_data", `"bytes": 5`),
	onWay("reset now and then", "downstream", "reset_peer", `"timeout": 30`),
	onWay("slices", "downstream", "slicer", `"average_size": 7, "delay": 2000`),
	{"stopped", func(t *testing.T, s *soak, _ *way) { s.redis.signal(t, syscall.SIGSTOP) },
		func(t *testing.T, s *soak, _ *way) { s.redis.signal(t, syscall.SIGCONT) }},
	{"killed and started again", func(t *testing.T, s *soak, _ *way) { s.lose(func() { s.redis.kill(t) }) },
		func(t *testing.T, s *soak, _ *way) { s.redis.startAgain(t, "eady to accept connections") }},
	{"scripts forgotten", said([]any{"script", "flush"}), said([]any{"script", "flush"})},
	{"all forgotten", func(t *testing.T, s *soak, _ *way) { s.lose(func() { s.redis.do(t, "flushall") }) }, nothing},
	{"connections closed", said([]any{"client", "kill", "type", "normal"}), said([]any{"client", "kill", "type", "normal"})},
	{"out of memory", said([]any{"config", "set", "maxmemory", "1"}), said([]any{"config", "set", "maxmemory", "0"})},
	{"a replica now", said([]any{"replicaof", "127.0.0.1", "1"}), said([]any{"replicaof", "no", "one"})},
	{"too few replicas", said([]any{"config", "set", "min-replicas-to-write", "1"}), said([]any{"config", "set", "min-replicas-to-write", "0"})},
	{"asleep", func(t *testing.T, s *soak, _ *way) { go s.redis.Do(context.Background(), "debug", "sleep", "0.3") }, said([]any{"ping"})},
	{"busy", func(t *testing.T, s *soak, _ *way) { go s.redis.Eval(context.Background(), "while true do end", nil) },
		func(t *testing.T, s *soak, _ *way) {
			await(t, "end of the script", func() bool { return s.redis.ScriptKill(t.Context()).Err() == nil })
		}},
	{"a password is required", said([]any{"config", "set", "requirepass", "new"}, []any{"client", "kill", "type", "normal"}),
		said([]any{"config", "set", "requirepass", ""})},
}

// lose notes when Redis loses what it knows.
func (s *soak) lose(how func()) {
	from := time.Now()
	how()
	s.losses = append(s.losses, span{from, time.Now()})
}
