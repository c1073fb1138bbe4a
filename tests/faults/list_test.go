package faults

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"authz/tests/rig"
)

// poisoned is a way that is bad in one respect, and then no longer.
func poisoned(name, kinds, direction, kind, attributes string) fault {
	return fault{name: name, kinds: kinds, silent: kinds == "timeout", runs: direction == "downstream",
		begin: func(t *testing.T, s *rig.Scene) { s.Way.Poison(t, rig.Toxic(direction, kind, attributes)) },
		end:   func(t *testing.T, s *rig.Scene) { s.Way.Close(); s.Way.Open(t) }}
}

// wayFaults happen between authz and Redis.
var wayFaults = []fault{
	{name: "refused port", kinds: "network",
		begin: func(t *testing.T, s *rig.Scene) { s.Way.Close() },
		end:   func(t *testing.T, s *rig.Scene) { s.Way.Open(t) }},
	poisoned("black hole for requests", "timeout", "upstream", "timeout", `"timeout": 0`),
	poisoned("black hole for replies", "timeout", "downstream", "timeout", `"timeout": 0`),
	poisoned("latency of three timeouts", "timeout", "downstream", "latency", `"latency": 300`),
	{name: "a byte every 50 ms", kinds: "timeout", silent: true, runs: true,
		begin: func(t *testing.T, s *rig.Scene) {
			s.Way.Poison(t, rig.Toxic("downstream", "slicer", `"average_size": 1, "delay": 50000`))
		},
		end: func(t *testing.T, s *rig.Scene) { s.Way.Close(); s.Way.Open(t) }},
	poisoned("a way that takes 20 bytes every 50 ms", "timeout", "upstream", "slicer", `"average_size": 20, "delay": 50000`),
	poisoned("cut in mid-reply", "network", "downstream", "limit_data", `"bytes": 5`),
	poisoned("reset instead of a reply", "network", "downstream", "reset_peer", `"timeout": 0`),
	poisoned("reset instead of a request", "network", "upstream", "reset_peer", `"timeout": 0`),
}

// serverFaults happen to Redis.
var serverFaults = []fault{
	{name: "stopped", kinds: "timeout", silent: true, straight: true,
		begin: func(t *testing.T, s *rig.Scene) { s.Redis.Signal(t, syscall.SIGSTOP) },
		end:   func(t *testing.T, s *rig.Scene) { s.Redis.Signal(t, syscall.SIGCONT) }},
	{name: "killed and started again", kinds: "network", straight: true,
		begin: func(t *testing.T, s *rig.Scene) { s.Redis.Kill(t) },
		end:   func(t *testing.T, s *rig.Scene) { s.Redis.StartAgain(t, "eady to accept connections") }}, // and knows no script
	{name: "loading", kinds: "loading", straight: true, begin: rig.BeginLoading,
		end: func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "config", "set", "key-load-delay", "0") }},
	{name: "busy with a script", kinds: "busy", straight: true, redis: []string{"--busy-reply-threshold", "1"}, begin: rig.BeginBusy,
		end: func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "script", "kill") }},
	configured("out of memory", "oom", "maxmemory", "1", "0"),
	configured("too few replicas", "other noreplicas", "min-replicas-to-write", "1", "0"),
	{name: "a replica now", kinds: "readonly",
		begin: func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "replicaof", "127.0.0.1", "1") },
		end:   func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "replicaof", "no", "one") }},
	{name: "cannot save", kinds: "misconf", redis: []string{"--enable-protected-configs", "yes"}, begin: beginUnsaved,
		end: func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "config", "set", "save", "") }},
	{name: "too many clients", kinds: "pool network", unclear: true, straight: true,
		begin: func(t *testing.T, s *rig.Scene) {
			s.Redis.MustDo(t, "config", "set", "maxclients", "1")
			s.Redis.MustDo(t, "client", "kill", "type", "normal")
		},
		end: func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "config", "set", "maxclients", "1000") }},
}

// accountFaults are what Redis thinks of authz.
var accountFaults = []fault{
	{name: "a password is required", kinds: "noauth network", straight: true,
		begin: func(t *testing.T, s *rig.Scene) {
			s.Redis.MustDo(t, "config", "set", "requirepass", "new")
			s.Redis.MustDo(t, "client", "kill", "type", "normal")
		},
		end: func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "config", "set", "requirepass", "") }},
	{name: "another password", kinds: "noauth network", straight: true, user: true,
		begin: func(t *testing.T, s *rig.Scene) {
			s.Redis.MustDo(t, "acl", "setuser", "authz", "resetpass", ">second")
			s.Redis.MustDo(t, "client", "kill", "user", "authz")
		},
		end: func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "acl", "setuser", "authz", "resetpass", ">first") }},
	{name: "no scripts allowed", kinds: "noperm", user: true,
		begin: func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "acl", "setuser", "authz", "-@scripting") },
		end:   func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "acl", "setuser", "authz", "+@all") }},
	{name: "no writes allowed", kinds: "noperm", user: true,
		begin: func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "acl", "setuser", "authz", "-set") },
		end:   func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "acl", "setuser", "authz", "+set") }},
}

// configured is a setting with which Redis refuses to write.
func configured(name, kinds, setting, bad, good string) fault {
	return fault{name: name, kinds: kinds, byClient: kinds == "oom",
		begin: func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "config", "set", setting, bad) },
		end:   func(t *testing.T, s *rig.Scene) { s.Redis.MustDo(t, "config", "set", setting, good) }}
}

// beginUnsaved takes away the folder into which Redis saves.
func beginUnsaved(t *testing.T, s *rig.Scene) {
	dir := t.TempDir() + "/gone"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Redis.MustDo(t, "config", "set", "dir", dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	s.Redis.MustDo(t, "config", "set", "save", "3600 1000000")
	s.Redis.MustDo(t, "bgsave")
	rig.Await(t, "failure to save", func() bool {
		return strings.Contains(s.Redis.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}
