package rig

import (
	"strconv"
	"strings"
	"testing"
)

// Counted is the value of a metric without labels.
func (a *AuthzServer) Counted(t testing.TB, metric string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(a.Metrics(t, metric+" "), metric)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
