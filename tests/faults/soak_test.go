package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"authz/limits"
	"authz/tests/rig"
)

// A soak is load from several clients, over limits of every algorithm and every on_error, through two
// instances of the service and the OpenResty pack, on one Redis to which something happens all the time.
type soak struct {
	rig.Scene
	ways     []*rig.Way // one for each door
	services []*rig.AuthzServer
	pack     *rig.Site
	set      map[string]*limits.Limit

	mu      sync.Mutex
	answers []soakAnswer
	faults  []soakSuffering
	losses  []span // when Redis has lost what it knew
}

// A soakSuffering is when a fault happened, and to which door if it was to one only.
type soakSuffering struct {
	soakFault
	span
	door int
	well time.Time // when all doors were normal again
}

// A soakAnswer is what a client got, and when.
type soakAnswer struct {
	span
	door         int
	limit, user  string
	status       string // "200"
	degraded     string
	transmission error
}

const soakTimeout = 50 * time.Millisecond // --redis-timeout's default

// soakLimits are limits of every algorithm and on_error, each at a path of its name, and three at once.
func soakLimits() string {
	text := `
		[defaults]
		replicas = 2
		[allow.free]
		match = { path = "/free" }
		[deny.forbidden]
		match = { path = "/forbidden" }
		[limit.watch]
		key = []
		algorithm = "fixed_window"
		rate = "1000000000/h"
		mode = "shadow"
		[limit.probe]
		match = { path = "/probe" }
		key = []
		algorithm = "token_bucket"
		rate = "1000000/s"
		on_error = "deny"
`
	rates := map[string]string{"token_bucket": "rate = \"10/s\"\nburst = 15", "leaky_bucket": "rate = \"20/s\"\nburst = 4"}
	for _, algorithm := range rig.Algorithms {
		rate := rates[algorithm]
		if rate == "" {
			rate = `rate = "10/s"`
		}
		for _, onError := range []string{"allow", "local", "deny"} {
			path := fmt.Sprintf("%q", "/"+algorithm+"-"+onError)
			if onError == "deny" && algorithm != "leaky_bucket" {
				path += `, "/several"`
			}
			text += fmt.Sprintf("[limit.%s-%s]\nmatch = { path = [%s] }\nkey = [\"header:X-User\"]\nmissing = \"deny\"\nalgorithm = %q\non_error = %q\n%s\n",
				algorithm, onError, path, algorithm, onError, rate)
		}
	}
	return text
}

// soakTime is how long it lasts.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		return 15 * time.Second
	}
	lasts, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("SOAK=%s: %v, want a time such as 10m", text, err)
	}
	return lasts
}

// envInt is a number from the environment, n if there is none.
func envInt(t *testing.T, name string, n int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return n
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%s: %v, want a whole number", name, text, err)
	}
	return n
}

func startSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{set: map[string]*limits.Limit{}}
	text := soakLimits()
	for _, l := range rig.Compile(t, text).Limits() {
		s.set[l.Name] = l
	}
	port := rig.FreePort(t)
	s.Redis = rig.StartRedis(t, "--port", port, "--enable-debug-command", "yes", "--busy-reply-threshold", "5")
	for range 3 {
		s.ways = append(s.ways, rig.StartWay(t, "127.0.0.1:"+port))
	}
	file := rig.LimitsFile(t, text)
	for _, w := range s.ways[:2] {
		a := rig.StartAuthz(t, "--limits="+file, "--redis=redis://127.0.0.1:"+w.Port, fmt.Sprint("--redis-timeout=", soakTimeout))
		s.services = append(s.services, a)
		s.Doors = append(s.Doors, a.Door())
	}
	s.pack = rig.StartPack(t, nil, address{port: s.ways[2].Port}.options(soakTimeout), rig.SiteConf{Limits: text, Server: rig.SayOK})
	s.Doors = append(s.Doors, s.pack.Door(t))
	return s
}

// TestSoak is `make soak` at length, and a few seconds of it with all other tests.
func TestSoak(t *testing.T) {
	t.Parallel() // it is long, and nothing in it minds company
	lasts, seed := soakTime(t), uint64(envInt(t, "SEED", rand.Int()))
	t.Logf("SOAK=%v SEED=%d", lasts, seed) // what happens is the same again, though not at the same moments
	s := startSoak(t)
	s.AwaitNormal(t, "/probe")
	before := s.hulls(t)
	end := make(chan struct{})
	var clients sync.WaitGroup
	for i := range s.Doors {
		for c := range uint64(4) {
			clients.Go(func() { s.ask(i, rand.New(rand.NewPCG(seed, uint64(i)<<8|c)), end) })
		}
	}
	s.suffer(t, rand.New(rand.NewPCG(seed, 1<<32)), time.Now().Add(lasts))
	close(end)
	clients.Wait()
	s.report(t)
	s.checkAnswers(t)
	s.checkBounds(t)
	s.checkLeaks(t, before)
}

// ask sends requests at random, one after the other.
func (s *soak) ask(door int, random *rand.Rand, end chan struct{}) {
	names := slices.Sorted(maps.Keys(s.set))
	names = slices.DeleteFunc(names, func(name string) bool { return name == "watch" || name == "probe" })
	names = append(names, "several", "several", "free", "forbidden")
	for {
		select {
		case <-end:
			return
		case <-time.After(time.Duration(random.IntN(20_000)) * time.Microsecond): // the load is what is asked for
		}
		a := soakAnswer{door: door, limit: names[random.IntN(len(names))], user: fmt.Sprint("u", random.IntN(4))}
		a.from = time.Now()
		said, err := s.Doors[door].Get("/"+a.limit, "X-User: "+a.user)
		a.to = time.Now()
		a.status, a.degraded, _ = strings.Cut(said, " ")
		a.transmission = err
		s.mu.Lock()
		s.answers = append(s.answers, a)
		s.mu.Unlock()
	}
}

// suffer lets one fault after the other happen until it is time to end.
func (s *soak) suffer(t *testing.T, random *rand.Rand, until time.Time) {
	for time.Now().Before(until) {
		time.Sleep(time.Duration(200+random.IntN(500)) * time.Millisecond) // well
		f := soakSuffering{soakFault: soakFaults[random.IntN(len(soakFaults))], door: random.IntN(len(s.ways))}
		f.from = time.Now()
		f.begin(t, s, s.ways[f.door])
		time.Sleep(time.Duration(100+random.IntN(900)) * time.Millisecond) // unwell
		f.end(t, s, s.ways[f.door])
		f.to = time.Now()
		s.AwaitNormal(t, "/probe")
		f.well = time.Now()
		t.Logf("%s for %v, normal %v after", f.name, f.to.Sub(f.from).Round(time.Millisecond), f.well.Sub(f.to).Round(time.Millisecond))
		s.faults = append(s.faults, f)
	}
}
