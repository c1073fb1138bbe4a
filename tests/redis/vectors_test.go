package redis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authz/limits"
	"authz/tests/rig"
)

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
	for _, b := range rig.Bodies {
		t.Run(b.Name, func(t *testing.T) {
			empty := b.Start(t)
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

func (v *vector) run(t *testing.T, take rig.Taker) {
	now := map[string]*limits.Limit{}
	set := func(edit map[string]vectorLimit) {
		for name, l := range edit {
			limit := rig.NewLimit(t, name, l.Algorithm, l.Limit, l.WindowUS, l.Burst)
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
			checks = append(checks, rig.Check(now[row.check], row.key, row.cost))
		}
		results := take(t, step.AtUS, checks, step.Peek)
		got := fmt.Sprint(rig.Admitted(checks, results), rig.Rows(results))
		if want := fmt.Sprint(step.Admitted, step.Want); got != want {
			t.Fatalf("%s\nstep %d at %d: %v\ngot  %s\nwant %s", v.About, i, step.AtUS, step.Take, got, want)
		}
	}
}
