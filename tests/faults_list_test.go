package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// poisoned is a way that is bad in one respect, and then no longer.
func poisoned(name, kinds, direction, kind, attributes string) fault {
	return fault{name: name, kinds: kinds, silent: kinds == "timeout", runs: direction == "downstream",
		begin: func(t *testing.T, s *scene) { s.way.poison(t, toxic(direction, kind, attributes)) },
		end:   func(t *testing.T, s *scene) { s.way.close(); s.way.open(t) }}
}

// wayFaults happen between authz and Redis.
var wayFaults = []fault{
	{name: "refused port", kinds: "network",
		begin: func(t *testing.T, s *scene) { s.way.close() },
		end:   func(t *testing.T, s *scene) { s.way.open(t) }},
	poisoned("black hole for requests", "timeout", "upstream", "timeout", `"timeout": 0`),
	poisoned("black hole for replies", "timeout", "downstream", "timeout", `"timeout": 0`),
	poisoned("latency of three timeouts", "timeout", "downstream", "latency", `"latency": 300`),
	{name: "a byte every 50 ms", kinds: "timeout", silent: true, runs: true,
		begin: func(t *testing.T, s *scene) {
			s.way.poison(t, toxic("downstream", "slicer", `"average_size": 1, "delay": 50000`))
		},
		end: func(t *testing.T, s *scene) { s.way.close(); s.way.open(t) }},
	poisoned("bandwidth of 1 KB/s", "timeout", "upstream", "bandwidth", `"rate": 1`),
	poisoned("cut in mid-reply", "network", "downstream", "limit_data", `"bytes": 5`),
	poisoned("reset instead of a reply", "network", "downstream", "reset_peer", `"timeout": 0`),
	poisoned("reset instead of a request", "network", "upstream", "reset_peer", `"timeout": 0`),
}

// serverFaults happen to Redis.
var serverFaults = []fault{
	{name: "stopped", kinds: "timeout", silent: true, straight: true,
		begin: func(t *testing.T, s *scene) { s.redis.signal(t, syscall.SIGSTOP) },
		end:   func(t *testing.T, s *scene) { s.redis.signal(t, syscall.SIGCONT) }},
	{name: "killed and started again", kinds: "network", straight: true,
		begin: func(t *testing.T, s *scene) { s.redis.kill(t) },
		end:   func(t *testing.T, s *scene) { s.redis.startAgain(t, "eady to accept connections") }}, // and knows no script
	{name: "loading", kinds: "loading", straight: true, begin: beginLoading,
		end: func(t *testing.T, s *scene) { s.redis.do(t, "config", "set", "key-load-delay", "0") }},
	{name: "busy with a script", kinds: "busy", straight: true, redis: []string{"--busy-reply-threshold", "1"}, begin: beginBusy,
		end: func(t *testing.T, s *scene) { s.redis.do(t, "script", "kill") }},
	configured("out of memory", "oom", "maxmemory", "1", "0"),
	configured("too few replicas", "other noreplicas", "min-replicas-to-write", "1", "0"),
	{name: "a replica now", kinds: "readonly",
		begin: func(t *testing.T, s *scene) { s.redis.do(t, "replicaof", "127.0.0.1", "1") },
		end:   func(t *testing.T, s *scene) { s.redis.do(t, "replicaof", "no", "one") }},
	{name: "cannot save", kinds: "misconf", redis: []string{"--enable-protected-configs", "yes"}, begin: beginUnsaved,
		end: func(t *testing.T, s *scene) { s.redis.do(t, "config", "set", "save", "") }},
	{name: "too many clients", kinds: "pool network", unclear: true, straight: true,
		begin: func(t *testing.T, s *scene) {
			s.redis.do(t, "config", "set", "maxclients", "1")
			s.redis.do(t, "client", "kill", "type", "normal")
		},
		end: func(t *testing.T, s *scene) { s.redis.do(t, "config", "set", "maxclients", "1000") }},
}

// accountFaults are what Redis thinks of authz.
var accountFaults = []fault{
	{name: "a password is required", kinds: "noauth network", straight: true,
		begin: func(t *testing.T, s *scene) {
			s.redis.do(t, "config", "set", "requirepass", "new")
			s.redis.do(t, "client", "kill", "type", "normal")
		},
		end: func(t *testing.T, s *scene) { s.redis.do(t, "config", "set", "requirepass", "") }},
	{name: "another password", kinds: "noauth network", straight: true, user: true,
		begin: func(t *testing.T, s *scene) {
			s.redis.do(t, "acl", "setuser", "authz", "resetpass", ">second")
			s.redis.do(t, "client", "kill", "user", "authz")
		},
		end: func(t *testing.T, s *scene) { s.redis.do(t, "acl", "setuser", "authz", "resetpass", ">first") }},
	{name: "no scripts allowed", kinds: "noperm", user: true,
		begin: func(t *testing.T, s *scene) { s.redis.do(t, "acl", "setuser", "authz", "-@scripting") },
		end:   func(t *testing.T, s *scene) { s.redis.do(t, "acl", "setuser", "authz", "+@all") }},
	{name: "no writes allowed", kinds: "noperm", user: true,
		begin: func(t *testing.T, s *scene) { s.redis.do(t, "acl", "setuser", "authz", "-set") },
		end:   func(t *testing.T, s *scene) { s.redis.do(t, "acl", "setuser", "authz", "+set") }},
}

// configured is a setting with which Redis refuses to write.
func configured(name, kinds, setting, bad, good string) fault {
	return fault{name: name, kinds: kinds, byClient: kinds == "oom",
		begin: func(t *testing.T, s *scene) { s.redis.do(t, "config", "set", setting, bad) },
		end:   func(t *testing.T, s *scene) { s.redis.do(t, "config", "set", setting, good) }}
}

// beginLoading restarts Redis with so much to read that it does not come to an end.
func beginLoading(t *testing.T, s *scene) {
	s.redis.do(t, "debug", "populate", "100000")
	s.redis.do(t, "save")
	s.redis.kill(t)
	s.redis.startAgain(t, "Server initialized", "--key-load-delay", "100", "--loading-process-events-interval-bytes", "1024")
	await(t, "Redis that is loading", func() bool {
		return strings.HasPrefix(fmt.Sprint(s.redis.Get(t.Context(), "x").Err()), "LOADING")
	})
}

func beginBusy(t *testing.T, s *scene) {
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		s.redis.Eval(context.Background(), "while true do end", nil)
	}()
	await(t, "busy Redis", func() bool { return strings.HasPrefix(fmt.Sprint(s.redis.Get(t.Context(), "x").Err()), "BUSY") })
}

// beginUnsaved takes away the folder into which Redis saves.
func beginUnsaved(t *testing.T, s *scene) {
	dir := t.TempDir() + "/gone"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.redis.do(t, "config", "set", "dir", dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	s.redis.do(t, "config", "set", "save", "3600 1000000")
	s.redis.do(t, "bgsave")
	await(t, "failure to save", func() bool {
		return strings.Contains(s.redis.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}

// kill ends the server as a crash does.
func (r *redisServer) kill(t testing.TB) {
	t.Helper()
	r.signal(t, syscall.SIGKILL)
	<-r.exited
}

// startAgain starts the server that was killed, as it was and with more on its command line, and waits
// for a line of its log.
func (r *redisServer) startAgain(t testing.TB, line string, args ...string) {
	t.Helper()
	again := exec.Command(r.cmd.Args[0], append(r.cmd.Args[1:], args...)...)
	again.Env = r.cmd.Env
	r.cmd, r.exited = again, make(chan struct{})
	awaitLine(t, r.cmd, r.exited, line)
}
