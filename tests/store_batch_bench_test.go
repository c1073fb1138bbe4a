package tests

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"authz/internal/store"
	"authz/limits"
	"authz/redisscripts"
)

// BenchmarkTakeRedis is a closed loop of callers, each with a key of its own; "plain" is one EVALSHA
// of the same script for each request, as a caller would write it.
func BenchmarkTakeRedis(b *testing.B) {
	r := startRedis(b)
	s := openRedis(b, r)
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: r.socket, MaxRetries: -1, Protocol: 2, ContextTimeoutEnabled: true, PoolSize: 300})
	defer client.Close()
	sha := redisscripts.Take().SHA
	l := newLimit(b, "api", "token_bucket", 1000000, 1e6, 1000000)
	for _, callers := range []int{1, 8, 64, 256} {
		asked := make([][]limits.Check, callers)
		for i := range asked {
			asked[i] = []limits.Check{check(l, fmt.Sprint("ip=203.0.113.", i), 1)}
		}
		loop := func(name string, take func(checks []limits.Check, dst []store.Result) error) {
			b.Run(fmt.Sprintf("%s/callers=%d", name, callers), func(b *testing.B) {
				b.ReportAllocs()
				before, ourUS, redisUS := r.calls(b, "evalsha"), ownCPU(), r.cpuUS(b)
				var all sync.WaitGroup
				for i := range callers {
					n := (b.N + i) / callers
					dst := make([]store.Result, 1)
					all.Go(func() {
						for range n {
							if err := take(asked[i], dst[:0]); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				b.ReportMetric((ownCPU()-ourUS)/float64(b.N), "us/op")
				b.ReportMetric((r.cpuUS(b)-redisUS)/float64(b.N), "redis-us/op")
				b.ReportMetric(float64(b.N)/float64(r.calls(b, "evalsha")-before), "takes/call")
			})
		}
		loop("take", func(checks []limits.Check, dst []store.Result) error {
			_, err := s.Take(context.Background(), 0, checks, false, dst)
			return err
		})
		loop("plain", func(checks []limits.Check, _ []store.Result) error {
			c := checks[0]
			ctx, cancel := context.WithTimeout(context.Background(), 10e9)
			defer cancel()
			return client.EvalSha(ctx, sha, []string{string(c.Key)}, 0, 1, 1, c.Rate.N, c.Rate.W, c.Rate.Capacity, 1).Err()
		})
	}
}

// ownCPU is what this process has used, in microseconds.
func ownCPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec)*1e6 + float64(u.Utime.Usec+u.Stime.Usec)
}

// cpuUS is what the server has used.
func (r *redisServer) cpuUS(b *testing.B) float64 {
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
