package redis

import (
	"context"
	"testing"

	"authz/tests/rig"
)

func TestARedisStarts(t *testing.T) {
	r := rig.StartRedis(t)
	if got := r.ConfigGet(context.Background(), "save").Val()["save"]; got != "" {
		t.Errorf("save = %q, want nothing saved", got)
	}
}
