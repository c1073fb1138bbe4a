package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"authz/internal/store"
	"authz/limits"
	"authz/redisscripts"
)

// scripts is a redis-server with all scripts loaded, called as anybody would call them.
type scripts struct {
	*redisServer
	sha map[string]string // by name
}

func startScripts(t testing.TB, args ...string) *scripts {
	t.Helper()
	s := &scripts{startRedis(t, args...), map[string]string{}}
	for _, script := range redisscripts.All() {
		sha, err := s.ScriptLoad(context.Background(), script.Text).Result()
		if err != nil || sha != script.SHA {
			t.Fatalf("%s: loaded as %q (%v), want %s", script.Name, sha, err, script.SHA)
		}
		s.sha[script.Name] = sha
	}
	return s
}

// run calls a script: its integers in one line, or what Redis says is wrong.
func (s *scripts) run(name string, keys []string, args ...any) string {
	reply, err := s.EvalSha(context.Background(), s.sha[name], keys, args...).Result()
	if err != nil {
		return err.Error()
	}
	return strings.Trim(fmt.Sprint(reply), "[]")
}

// single asks the script of the check's own algorithm, as a person would.
func (s *scripts) single(nowUS int64, c limits.Check, peek bool) string {
	extra := fmt.Sprint(c.Rate.OffsetUS)
	if c.Limit.Algorithm == limits.TokenBucket || c.Limit.Algorithm == limits.LeakyBucket {
		extra = fmt.Sprint(c.Rate.Burst)
	}
	if c.Rate.Initial > 0 {
		extra += fmt.Sprint("/", c.Rate.Initial)
	}
	asked := 0
	if peek {
		asked = 1
	}
	return s.run(c.Limit.Algorithm.String(), []string{string(c.Key)},
		c.Rate.Count, c.Rate.WindowUS, extra, c.Cost, nowUS, asked)
}

// takeArgs are the ARGV of take for one request, without now_us.
func takeArgs(checks []limits.Check, peek bool) (keys []string, args []any) {
	n := len(checks)
	if peek {
		n = -n
	}
	args = append(args, n)
	for _, c := range checks {
		algorithm, a, b, last := int64(c.Limit.Algorithm), c.Rate.Count, c.Rate.WindowUS, fmt.Sprint(c.Rate.OffsetUS)
		if c.Rate.W != 0 {
			a, b, last = c.Rate.N, c.Rate.W, fmt.Sprint(c.Rate.Capacity)
		}
		if c.Rate.Initial > 0 {
			last += fmt.Sprint("/", c.Rate.Cold())
		}
		if c.Limit.Shadow {
			algorithm = -algorithm
		}
		keys = append(keys, string(c.Key))
		args = append(args, algorithm, a, b, last, c.Cost)
	}
	return keys, args
}

// take asks take for one request.
func (s *scripts) take(nowUS int64, peek bool, checks ...limits.Check) string {
	keys, args := takeArgs(checks, peek)
	return s.run("take", keys, append([]any{nowUS}, args...)...)
}

// results reads what a script of one algorithm answered.
func results(t *testing.T, reply string) []store.Result {
	t.Helper()
	var allowed int
	var r store.Result
	if n, err := fmt.Sscan(reply, &allowed, &r.Remaining, &r.WaitUS, &r.ResetUS); n != 4 || err != nil {
		t.Fatalf("answer is %q, want four integers", reply)
	}
	r.Allowed = allowed == 1
	return []store.Result{r}
}

func TestTheScriptOfEachAlgorithmGivesTheVectorsAnswers(t *testing.T) {
	s := startScripts(t)
	files, err := filepath.Glob("vectors/take/*.json")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range files {
		v := readVector(t, file)
		if !v.oneCheckARequest() {
			continue
		}
		ran++
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			s.FlushDB(context.Background())
			v.run(t, func(t *testing.T, nowUS int64, checks []limits.Check, peek bool) []store.Result {
				return results(t, s.single(nowUS, checks[0], peek))
			})
		})
	}
	if ran < 70 {
		t.Errorf("ran %d vectors, want those of one check a request: 70 at least", ran)
	}
}

func (v *vector) oneCheckARequest() bool {
	for _, step := range v.Steps {
		if len(step.Take) != 1 {
			return false
		}
	}
	return true
}

func TestEachScriptAnswersAsTakeDoes(t *testing.T) {
	s := startScripts(t)
	random := rand.New(rand.NewPCG(1, 2))
	for name := range strings.FieldsSeq("token_bucket leaky_bucket fixed_window sliding_window sliding_counter") {
		now := int64(1767225600000000)
		var l *limits.Limit
		for step := range 400 {
			if step%20 == 0 { // another limit, or an edited one, on the same keys
				window := []int64{1000, 333333, 1000000, 60000000, 86400000000}[random.IntN(5)]
				l = newLimit(t, "l", name, 1+random.Int64N(20), window, 1+random.Int64N(30))
				if name == "fixed_window" || name == "sliding_counter" {
					l.Rate.OffsetUS = random.Int64N(window)
				}
			}
			now += random.Int64N(l.Rate.WindowUS/4) - l.Rate.WindowUS/20
			c := check(l, fmt.Sprint("u", random.IntN(2)), 1+random.Int64N(4))
			peek := random.IntN(8) == 0
			single := s.single(now, c, peek)
			c.Key = append([]byte("take:"), c.Key...)
			status, took, _ := strings.Cut(s.take(now, peek, c), " ")
			if took != single || status != took[:1] {
				t.Fatalf("%s, step %d at %d: limit %+v cost %d peek %v\ntake   %s %s\nsingle %s", name, step, now, l.Rate, c.Cost, peek, status, took, single)
			}
			mustHoldTheSame(t, s, string(c.Key), strings.TrimPrefix(string(c.Key), "take:"))
		}
	}
}

// mustHoldTheSame compares what two keys store.
func mustHoldTheSame(t *testing.T, s *scripts, a, b string) {
	t.Helper()
	if x, y := s.state(a), s.state(b); x != y {
		t.Fatalf("%s holds %s\n%s holds %s", a, x, b, y)
	}
}

// state is what a key stores, as text.
func (s *scripts) state(key string) string {
	switch s.Type(context.Background(), key).Val() {
	case "none":
		return "nothing"
	case "zset":
		return fmt.Sprint(s.ZRangeWithScores(context.Background(), key, 0, -1).Val())
	}
	return s.Get(context.Background(), key).Val()
}
