package rig

import (
	"testing"
	"time"
)

// Ask is an answer, which comes in time.
func (d *Door) Ask(t *testing.T, path string) string {
	t.Helper()
	began := time.Now()
	answer, err := d.Get(path)
	if err != nil {
		answer = err.Error()
	}
	if took := time.Since(began); took > Briefly+Grace {
		t.Errorf("%s%s took %v, want %v at most and a little", d.Name, path, took, Briefly)
	}
	return answer
}
