package rig

import (
	"context"
	"regexp"
	"strconv"
)

// ConnectionsReceived is how many connections Redis has had.
func (r *RedisServer) ConnectionsReceived() int {
	stats := r.Info(context.Background(), "stats").Val()
	n, _ := strconv.Atoi(regexp.MustCompile(`total_connections_received:(\d+)`).FindStringSubmatch(stats)[1])
	return n
}
