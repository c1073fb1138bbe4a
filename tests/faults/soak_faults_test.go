package faults

import (
	"context"
	"syscall"
	"testing"
	"time"

	"authz/tests/rig"
)

// A soakFault happens on one of the ways, or to the Redis behind all of them.
type soakFault struct {
	name       string
	begin, end func(t *testing.T, s *soak, w *rig.Way)
	oneWay     bool
	byClients  clientsDoing
}

func nothing(*testing.T, *soak, *rig.Way) {}

// onWay is a poison of one way. It comes with new connections: toxiproxy bears no other under load.
func onWay(name string, byClients clientsDoing, direction, kind, attributes string) soakFault {
	return soakFault{name: name, oneWay: true, byClients: byClients,
		begin: func(t *testing.T, _ *soak, w *rig.Way) { w.Close(); w.Open(t, rig.Toxic(direction, kind, attributes)) },
		end:   func(t *testing.T, _ *soak, w *rig.Way) { w.Close(); w.Open(t) }}
}

// said is commands to Redis.
func said(commands ...[]any) func(*testing.T, *soak, *rig.Way) {
	return func(t *testing.T, s *soak, _ *rig.Way) {
		t.Helper()
		for _, c := range commands {
			s.Redis.MustDo(t, c...)
		}
	}
}

var soakFaults = []soakFault{
	{name: "refused port", oneWay: true, begin: func(_ *testing.T, _ *soak, w *rig.Way) { w.Close() }, end: func(t *testing.T, _ *soak, w *rig.Way) { w.Open(t) }},
	onWay("black hole for requests", nobodys, "upstream", "timeout", `"timeout": 0`),
	onWay("black hole for replies", nobodys, "downstream", "timeout", `"timeout": 0`),
	onWay("latency of 200 ms", nobodys, "downstream", "latency", `"latency": 200`),
	onWay("latency around the timeout", theirs, "downstream", "latency", `"latency": 45, "jitter": 20`),
	onWay("bandwidth of 1 KB/s", nobodys, "upstream", "bandwidth", `"rate": 1`),
	onWay("cut in mid-reply", nobodys, "downstream", "limit_data", `"bytes": 5`),
	onWay("reset now and then", perhapsTheirs, "downstream", "reset_peer", `"timeout": 30`),
	onWay("slices", theirs, "downstream", "slicer", `"average_size": 7, "delay": 2000`),
	{name: "stopped", begin: func(t *testing.T, s *soak, _ *rig.Way) { s.Redis.Signal(t, syscall.SIGSTOP) },
		end: func(t *testing.T, s *soak, _ *rig.Way) { s.Redis.Signal(t, syscall.SIGCONT) }},
	{name: "killed and started again", begin: func(t *testing.T, s *soak, _ *rig.Way) { s.lose(func() { s.Redis.Kill(t) }) },
		end: func(t *testing.T, s *soak, _ *rig.Way) { s.Redis.StartAgain(t, "eady to accept connections") }},
	{name: "scripts forgotten", byClients: perhapsTheirs, begin: said([]any{"script", "flush"}), end: said([]any{"script", "flush"})},
	{name: "all forgotten", byClients: perhapsTheirs, begin: func(t *testing.T, s *soak, _ *rig.Way) { s.lose(func() { s.Redis.MustDo(t, "flushall") }) }, end: nothing},
	{name: "connections closed", byClients: perhapsTheirs, begin: said([]any{"client", "kill", "type", "normal"}), end: said([]any{"client", "kill", "type", "normal"})},
	{name: "out of memory", byClients: theirs, begin: said([]any{"config", "set", "maxmemory", "1"}), end: said([]any{"config", "set", "maxmemory", "0"})},
	{name: "a replica now", byClients: perhapsTheirs, begin: said([]any{"replicaof", "127.0.0.1", "1"}), end: said([]any{"replicaof", "no", "one"})},
	{name: "too few replicas", byClients: perhapsTheirs, begin: said([]any{"config", "set", "min-replicas-to-write", "1"}), end: said([]any{"config", "set", "min-replicas-to-write", "0"})},
	{name: "asleep", byClients: perhapsTheirs, begin: func(t *testing.T, s *soak, _ *rig.Way) { go s.Redis.Do(context.Background(), "debug", "sleep", "0.3") }, end: said([]any{"ping"})},
	{name: "busy", byClients: perhapsTheirs, begin: func(t *testing.T, s *soak, _ *rig.Way) {
		go s.Redis.Eval(context.Background(), "while true do end", nil)
	},
		end: func(t *testing.T, s *soak, _ *rig.Way) {
			rig.Await(t, "end of the script", func() bool { return s.Redis.ScriptKill(t.Context()).Err() == nil })
		}},
	{name: "a password is required", byClients: perhapsTheirs, begin: said([]any{"config", "set", "requirepass", "new"}, []any{"client", "kill", "type", "normal"}),
		end: said([]any{"config", "set", "requirepass", ""})},
}

// lose notes when Redis loses what it knows.
func (s *soak) lose(how func()) {
	from := time.Now()
	how()
	s.losses = append(s.losses, span{from, time.Now()})
}
