package rig

import (
	"context"
	"strings"
)

// Role is master or slave.
func (r *RedisServer) Role() string {
	_, after, _ := strings.Cut(r.Info(context.Background(), "replication").Val(), "role:")
	role, _, _ := strings.Cut(after, "\r\n")
	return role
}
