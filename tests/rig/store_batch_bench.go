package rig

import (
	"context"
	"regexp"
	"strconv"
	"testing"
)

// CpuUS is what the server has used.
func (r *RedisServer) CpuUS(b *testing.B) float64 {
	text, err := r.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var us float64
	for _, m := range regexp.MustCompile(`used_cpu_(?:sys|user):([0-9.]+)`).FindAllStringSubmatch(text, -1) {
		s, _ := strconv.ParseFloat(m[1], 64)
		us += s * 1e6
	}
	return us
}
