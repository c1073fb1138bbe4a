package rig

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// clock is that of one redis-server.
type clock struct {
	*RedisServer
	file string
}

// StartRedisWithClock starts a redis-server whose clock can be moved and stopped.
func StartRedisWithClock(t *testing.T) (*RedisServer, *clock) {
	t.Helper()
	shim, file := BuildClock(t)
	c := &clock{file: file}
	c.RedisServer = StartRedis(t, "LD_PRELOAD="+shim, "CLOCK_OFFSET_US="+file)
	return c.RedisServer, c
}

// BuildClock makes what moves a clock, and the file that says where to.
func BuildClock(t *testing.T) (shim, file string) {
	t.Helper()
	dir := t.TempDir()
	shim, file = filepath.Join(dir, "clock.so"), filepath.Join(dir, "offset_us")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", shim, "clock.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc clock.c: %v\n%s", err, out)
	}
	ReplaceFile(t, file, "0")
	return shim, file
}

// Move lets the clock go, off by this much.
func (c *clock) Move(t *testing.T, off time.Duration) {
	t.Helper()
	ReplaceFile(t, c.file, fmt.Sprint(off.Microseconds()))
	c.clockIsOffBy(t, off)
}

// Stop stops the clock at an instant.
func (c *clock) Stop(t *testing.T, at time.Time) {
	t.Helper()
	ReplaceFile(t, c.file, fmt.Sprint("=", at.UnixMicro()))
	if said := c.Time(context.Background()).Val(); !said.Equal(at) {
		t.Fatalf("Redis says it is %v, want %v", said, at)
	}
}

// clockIsOffBy fails unless the clock has been moved, whatever redis-server takes its time from.
func (r *RedisServer) clockIsOffBy(t *testing.T, off time.Duration) {
	t.Helper()
	before := time.Now()
	said := r.Time(context.Background()).Val()
	if after := time.Now(); said.Before(before.Add(off-time.Second)) || said.After(after.Add(off+time.Second)) {
		t.Fatalf("Redis says it is %v, want %v and %v", said, before, off)
	}
}
