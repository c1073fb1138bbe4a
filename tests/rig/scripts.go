package rig

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"authz/internal/store"
	"authz/limits"
	"authz/redisscripts"
)

// Scripts is a redis-server with all scripts loaded, called as anybody would call them.
type Scripts struct {
	*RedisServer
	Sha map[string]string // by name
}

func StartScripts(t testing.TB, args ...string) *Scripts {
	t.Helper()
	s := &Scripts{StartRedis(t, args...), map[string]string{}}
	for _, script := range redisscripts.All() {
		sha, err := s.ScriptLoad(context.Background(), script.Text).Result()
		if err != nil || sha != script.SHA {
			t.Fatalf("%s: loaded as %q (%v), want %s", script.Name, sha, err, script.SHA)
		}
		s.Sha[script.Name] = sha
	}
	return s
}

// Run calls a script: its integers in one line, or what Redis says is wrong.
func (s *Scripts) Run(name string, keys []string, args ...any) string {
	reply, err := s.EvalSha(context.Background(), s.Sha[name], keys, args...).Result()
	if err != nil {
		return err.Error()
	}
	return strings.Trim(fmt.Sprint(reply), "[]")
}

// Single asks the script of the check's own algorithm, as a person would.
func (s *Scripts) Single(nowUS int64, c limits.Check, peek bool) string {
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
	return s.Run(c.Limit.Algorithm.String(), []string{string(c.Key)},
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

// Take asks take for one request.
func (s *Scripts) Take(nowUS int64, peek bool, checks ...limits.Check) string {
	keys, args := takeArgs(checks, peek)
	return s.Run("take", keys, append([]any{nowUS}, args...)...)
}

// Results reads what a script of one algorithm answered.
func Results(t *testing.T, reply string) []store.Result {
	t.Helper()
	var allowed int
	var r store.Result
	if n, err := fmt.Sscan(reply, &allowed, &r.Remaining, &r.WaitUS, &r.ResetUS); n != 4 || err != nil {
		t.Fatalf("answer is %q, want four integers", reply)
	}
	r.Allowed = allowed == 1
	return []store.Result{r}
}

// State is what a key stores, as text.
func (s *Scripts) State(key string) string {
	switch s.Type(context.Background(), key).Val() {
	case "none":
		return "nothing"
	case "zset":
		return fmt.Sprint(s.ZRangeWithScores(context.Background(), key, 0, -1).Val())
	}
	return s.Get(context.Background(), key).Val()
}
