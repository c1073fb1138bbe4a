package service

import (
	"testing"

	"authz/tests/rig"
)

// TestARequestMeetsExactlyTheseRules runs vectors/match.
func TestARequestMeetsExactlyTheseRules(t *testing.T) { rig.RunMatchVectors(t, rig.Explain) }
