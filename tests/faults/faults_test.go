package faults

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"authz/tests/rig"
)

// A fault is something that happens to Redis, or on the way to it, until it ends.
type fault struct {
	name     string
	redis    []string // more of redis-server's command line
	straight bool     // asked on its own port, not over the way
	user     bool     // asked as the user authz with the password "first"
	runs     bool     // a request is run, and its reply does not come
	silent   bool     // nothing answers, and nothing says that nobody will
	begin    func(t *testing.T, s *rig.Scene)
	end      func(t *testing.T, s *rig.Scene)
	kinds    string // what the metrics call it: the first, and perhaps the others
	byClient bool   // clients could bring it about: "allow" acts as "local"
	unclear  bool   // what is wrong may be heard or not, and so "allow" may act as either
}

// openBreaker is what the metrics call a request that Redis was not asked about, after it has failed others.
const openBreaker = "breaker"

const faultLimits = `
	[defaults]
	replicas = 400
	[limit.allow]
	match     = { path = "/allow" }
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "800/366d"
	on_error  = "allow"
	[limit.local]
	match     = { path = "/local" }
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "800/366d"
	[limit.deny]
	match     = { path = ["/deny", "/both"] }
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "1000000/366d"
	on_error  = "deny"
	[limit.both]
	match     = { path = "/both" }
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "1000000/366d"
	on_error  = "allow"`

func TestOnErrorAnswersEveryFault(t *testing.T) {
	for _, f := range slices.Concat(wayFaults, serverFaults, accountFaults) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for timeouts
			f.test(t)
		})
	}
}

func (f fault) test(t *testing.T) {
	s := f.stage(t)
	s.AwaitNormal(t, "/deny")
	var before []map[string]int
	for _, d := range s.Doors {
		before = append(before, d.Errors(t))
	}
	f.begin(t, s)
	want := map[string]string{
		"/allow": "200 allow, 200 allow, 200 allow",
		"/local": "200 local, 200 local, 429 local", // 2 is the share of one in 400
		"/deny":  "503 deny, 503 deny, 503 deny",
		"/both":  "503 deny, 503 deny, 503 deny",
	}
	if f.byClient {
		want["/allow"] = want["/local"]
	}
	if f.unclear {
		delete(want, "/allow")
	}
	var asking sync.WaitGroup
	for _, d := range s.Doors {
		for path, want := range want {
			asking.Go(func() { rig.Same(t, d.Name+path+" "+askThrice(t, d, path), d.Name+path+" "+want) })
		}
	}
	asking.Wait()
	for i, d := range s.Doors {
		kinds, want := d.ErrorsSince(t, before[i]), strings.Fields(f.kinds)
		for _, kind := range kinds {
			if !slices.Contains(want, kind) && kind != openBreaker {
				t.Errorf("%s: an error of kind %s, want %s", d.Name, kind, f.kinds)
			}
		}
		if !slices.Contains(kinds, want[0]) && !(f.unclear && len(kinds) > 0) {
			t.Errorf("%s: errors of kinds %v, want %s", d.Name, kinds, want[0])
		}
	}
	f.end(t, s)
	s.AwaitNormal(t, "/deny")
	s.AwaitNormal(t, "/allow")
	s.AwaitNormal(t, "/local")
}

// stage starts what the fault happens to.
func (f fault) stage(t *testing.T) *rig.Scene {
	t.Helper()
	at := address{port: rig.FreePort(t)}
	s := &rig.Scene{Redis: rig.StartRedis(t, append([]string{"--port", at.port, "--enable-debug-command", "yes"}, f.redis...)...)}
	if f.user {
		at.user, at.password = "authz", "first"
		s.Redis.MustDo(t, "acl", "setuser", "authz", "on", ">first", "+@all", "~*")
	}
	if !f.straight {
		s.Way = rig.StartWay(t, "127.0.0.1:"+at.port)
		at.port = s.Way.Port
	}
	s.Doors = startDoors(t, faultLimits, at, f.timeout())
	return s
}

func (f fault) timeout() time.Duration {
	if f.silent {
		return rig.Briefly
	}
	return rig.Amply
}

// askThrice is three answers.
func askThrice(t *testing.T, d *rig.Door, path string) string {
	return strings.Join([]string{d.Ask(t, path), d.Ask(t, path), d.Ask(t, path)}, ", ")
}
