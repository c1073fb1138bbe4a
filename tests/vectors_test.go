package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authz/internal/store"
	"authz/limits"
)

// A body is something that takes: it must give the answers of every file in vectors/take.
type body struct {
	name string
	// start starts it; what comes back empties it and makes a taker of it.
	start func(t *testing.T) (empty func(t *testing.T) taker)
}

var bodies = []body{
	{"memory", func(*testing.T) func(*testing.T) taker {
		return func(*testing.T) taker { return storeTaker(store.NewMemory(1000)) }
	}},
	{"redis", func(t *testing.T) func(*testing.T) taker {
		r := startRedis(t)
		s := openRedis(t, r)
		return func(t *testing.T) taker {
			r.flush(t)
			return storeTaker(s)
		}
	}},
	{"cluster", func(t *testing.T) func(*testing.T) taker {
		c := startCluster(t)
		s := openCluster(t, c)
		return func(t *testing.T) taker {
			c.flush(t)
			return storeTaker(s)
		}
	}},
	{"nginx-redis", packBody("/redis")},
	{"nginx-shdict", packBody("/shdict")},
}

// A taker decides one request; what it stores outlives the call, and nothing else.
type taker func(t *testing.T, nowUS int64, checks []limits.Check, peek bool) []store.Result

// storeTaker is the taker of a Store.
func storeTaker(s store.Store) taker {
	return func(t *testing.T, nowUS int64, checks []limits.Check, peek bool) []store.Result {
		t.Helper()
		results, err := s.Take(context.Background(), nowUS, checks, peek, nil)
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
}

// TestVectors runs every file of vectors/take, or of the folder AUTHZ_VECTORS, against every body.
func TestVectors(t *testing.T) {
	dir := os.Getenv("AUTHZ_VECTORS")
	if dir == "" {
		dir = "vectors/take"
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, want vectors (%v)", dir, len(files), err)
	}
	for _, b := range bodies {
		t.Run(b.name, func(t *testing.T) {
			empty := b.start(t)
			for _, file := range files {
				v := readVector(t, file)
				t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) { v.run(t, empty(t)) })
			}
		})
	}
}

// A vector is one file: limits by name, and what must come out of each request.
type vector struct {
	About  string                 `json:"about"`
	Checks map[string]vectorLimit `json:"checks"`
	Steps  []struct {
		AtUS     int64                  `json:"at_us"`
		Edit     map[string]vectorLimit `json:"edit"`
		Take     []vectorRow            `json:"take"`
		Peek     bool                   `json:"peek"`
		Admitted bool                   `json:"admitted"`
		Want     [][4]int64             `json:"want"` // allowed, remaining, wait_us, reset_us
	} `json:"steps"`
}

type vectorLimit struct {
	Algorithm string `json:"algorithm"`
	Limit     int64  `json:"limit"`
	WindowUS  int64  `json:"window_us"`
	Burst     int64  `json:"burst"`
	Initial   int64  `json:"initial"`
	OffsetUS  int64  `json:"offset_us"`
	Shadow    bool   `json:"shadow"`
}

// A vectorRow is [check, key, cost].
type vectorRow struct {
	check, key string
	cost       int64
}

func (r *vectorRow) UnmarshalJSON(b []byte) error {
	row := []any{&r.check, &r.key, &r.cost}
	if err := json.Unmarshal(b, &row); err != nil {
		return err
	}
	if len(row) != 3 {
		return fmt.Errorf("%s: %d elements, want [check, key, cost]", b, len(row))
	}
	return nil
}

func readVector(t *testing.T, file string) *vector {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v vector
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(v.Steps) == 0 {
		t.Fatalf("%s: no steps", file)
	}
	return &v
}

func (v *vector) run(t *testing.T, take taker) {
	now := map[string]*limits.Limit{}
	set := func(edit map[string]vectorLimit) {
		for name, l := range edit {
			limit := newLimit(t, name, l.Algorithm, l.Limit, l.WindowUS, l.Burst)
			limit.Rate.OffsetUS, limit.Rate.Initial, limit.Shadow = l.OffsetUS, l.Initial, l.Shadow
			now[name] = limit
		}
	}
	set(v.Checks)
	for i, step := range v.Steps {
		set(step.Edit)
		var checks []limits.Check
		for _, row := range step.Take {
			if now[row.check] == nil {
				t.Fatalf("step %d: no check %q in this file", i, row.check)
			}
			checks = append(checks, check(now[row.check], row.key, row.cost))
		}
		results := take(t, step.AtUS, checks, step.Peek)
		got := fmt.Sprint(admitted(checks, results), rows(results))
		if want := fmt.Sprint(step.Admitted, step.Want); got != want {
			t.Fatalf("%s\nstep %d at %d: %v\ngot  %s\nwant %s", v.About, i, step.AtUS, step.Take, got, want)
		}
	}
}

// newLimit is a limit as the compiler would make it.
func newLimit(t testing.TB, name, algorithm string, count, windowUS, burst int64) *limits.Limit {
	t.Helper()
	l := &limits.Limit{Name: name, Rate: limits.Rate{Count: count, WindowUS: windowUS, Burst: burst}}
	for _, a := range limits.Algorithms {
		if a.String() == algorithm {
			l.Algorithm = a
		}
	}
	tokens := burst
	switch l.Algorithm {
	case 0:
		t.Fatalf("%s: algorithm %q, want one of the five", name, algorithm)
	case limits.LeakyBucket:
		tokens++ // the one being served
		fallthrough
	case limits.TokenBucket:
		d, r := count, windowUS
		for r != 0 {
			d, r = r, d%r
		}
		l.Rate.N, l.Rate.W = count/d, windowUS/d
		l.Rate.Capacity = tokens * l.Rate.W
	}
	return l
}

// check asks a limit for cost on a key of its own.
func check(l *limits.Limit, key string, cost int64) limits.Check {
	redisKey := fmt.Sprintf("authz:v1:{%s}:%s:%s", key, l.Name, l.Algorithm.Code())
	return limits.Check{Limit: l, Rate: &l.Rate, Key: []byte(redisKey), Cost: cost}
}

// admitted is what the request is told: no check refuses it but shadows.
func admitted(checks []limits.Check, results []store.Result) bool {
	for i, r := range results {
		if !r.Allowed && !checks[i].Limit.Shadow {
			return false
		}
	}
	return true
}

// rows are results as vectors write them.
func rows(results []store.Result) (out [][4]int64) {
	for _, r := range results {
		row := [4]int64{0, r.Remaining, r.WaitUS, r.ResetUS}
		if r.Allowed {
			row[0] = 1
		}
		out = append(out, row)
	}
	return out
}
