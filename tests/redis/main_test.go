package redis

import (
	"testing"

	"authz/tests/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
