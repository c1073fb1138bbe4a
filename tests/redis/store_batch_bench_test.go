package redis

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"authz/internal/store"
	"authz/limits"
	"authz/redisscripts"
	"authz/tests/rig"
)

// BenchmarkTakeRedis is a closed loop of callers, each with a key of its own; "plain" is one EVALSHA
// of the same script for each request, as a caller would write it.
func BenchmarkTakeRedis(b *testing.B) {
	r := rig.StartRedis(b)
	s := rig.OpenRedis(b, r)
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: r.Socket, MaxRetries: -1, Protocol: 2, ContextTimeoutEnabled: true, PoolSize: 300})
	defer client.Close()
	sha := redisscripts.Take().SHA
	l := rig.NewLimit(b, "api", "token_bucket", 1000000, 1e6, 1000000)
	for _, callers := range []int{1, 8, 64, 256} {
		asked := make([][]limits.Check, callers)
		for i := range asked {
			asked[i] = []limits.Check{rig.Check(l, fmt.Sprint("ip=203.0.113.", i), 1)}
		}
		loop := func(name string, take func(checks []limits.Check, dst []store.Result) error) {
			b.Run(fmt.Sprintf("%s/callers=%d", name, callers), func(b *testing.B) {
				b.ReportAllocs()
				before, ourUS, redisUS := r.Calls(b, "evalsha"), ownCPU(), r.CpuUS(b)
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
				b.ReportMetric((r.CpuUS(b)-redisUS)/float64(b.N), "redis-us/op")
				b.ReportMetric(float64(b.N)/float64(r.Calls(b, "evalsha")-before), "takes/call")
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
