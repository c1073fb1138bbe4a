package main

import (
	"context"
	"os/exec"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A redisServer is a real one that saves nothing, on a loopback port.
type redisServer struct {
	*process
	addr   string
	client *redis.Client
}

func startRedis(ctx context.Context, dir string) (*redisServer, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	p, err := start("Redis", exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no"))
	if err != nil {
		return nil, err
	}
	if err := p.awaitListening(ctx, addr); err != nil {
		p.stop()
		return nil, err
	}
	return &redisServer{p, addr, redis.NewClient(&redis.Options{Addr: addr})}, nil
}

func (r *redisServer) stop() {
	r.client.Close()
	r.process.stop()
}

// commands is how often each command ran, and for how many µs, those within scripts among them.
type commands struct{ calls, us map[string]float64 }

func (r *redisServer) commands(ctx context.Context) (commands, error) {
	c := commands{map[string]float64{}, map[string]float64{}}
	text, err := r.client.Info(ctx, "commandstats").Result()
	for line := range strings.Lines(text) {
		name, fields, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":")
		if !ok {
			continue
		}
		for field := range strings.SplitSeq(fields, ",") {
			key, value, _ := strings.Cut(field, "=")
			n, _ := strconv.ParseFloat(value, 64)
			switch key {
			case "calls":
				c.calls[name] = n
			case "usec":
				c.us[name] = n
			}
		}
	}
	return c, err
}

// scripts is what of c are calls of scripts, and their µs, with all that ran within them.
func (c commands) scripts() (calls, us float64) {
	for _, name := range []string{"evalsha", "eval", "fcall"} {
		calls += c.calls[name]
		us += c.us[name]
	}
	return calls, us
}
