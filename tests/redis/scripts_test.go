package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"authz/internal/store"
	"authz/limits"
	"authz/tests/rig"
)

func TestTheScriptOfEachAlgorithmGivesTheVectorsAnswers(t *testing.T) {
	s := rig.StartScripts(t)
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
				return rig.Results(t, s.Single(nowUS, checks[0], peek))
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
	s := rig.StartScripts(t)
	random := rand.New(rand.NewPCG(1, 2))
	for name := range strings.FieldsSeq("token_bucket leaky_bucket fixed_window sliding_window sliding_counter") {
		now := int64(1767225600000000)
		var l *limits.Limit
		for step := range 400 {
			if step%20 == 0 { // another limit, or an edited one, on the same keys
				window := []int64{1000, 333333, 1000000, 60000000, 86400000000}[random.IntN(5)]
				l = rig.NewLimit(t, "l", name, 1+random.Int64N(20), window, 1+random.Int64N(30))
				if name == "fixed_window" || name == "sliding_counter" {
					l.Rate.OffsetUS = random.Int64N(window)
				}
			}
			now += random.Int64N(l.Rate.WindowUS/4) - l.Rate.WindowUS/20
			c := rig.Check(l, fmt.Sprint("u", random.IntN(2)), 1+random.Int64N(4))
			peek := random.IntN(8) == 0
			single := s.Single(now, c, peek)
			c.Key = append([]byte("take:"), c.Key...)
			status, took, _ := strings.Cut(s.Take(now, peek, c), " ")
			if took != single || status != took[:1] {
				t.Fatalf("%s, step %d at %d: limit %+v cost %d peek %v\ntake   %s %s\nsingle %s", name, step, now, l.Rate, c.Cost, peek, status, took, single)
			}
			mustHoldTheSame(t, s, string(c.Key), strings.TrimPrefix(string(c.Key), "take:"))
		}
	}
}

// mustHoldTheSame compares what two keys store.
func mustHoldTheSame(t *testing.T, s *rig.Scripts, a, b string) {
	t.Helper()
	if x, y := s.State(a), s.State(b); x != y {
		t.Fatalf("%s holds %s\n%s holds %s", a, x, b, y)
	}
}
