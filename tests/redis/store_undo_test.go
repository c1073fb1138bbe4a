package redis

import (
	"context"
	"fmt"
	"testing"

	"authz/internal/store"
	"authz/internal/store/redisstore"
	"authz/limits"
	"authz/tests/rig"
)

func TestABucketThatIsDeletedBeginsAsNeverUsed(t *testing.T) {
	r := rig.StartRedis(t)
	ctx := context.Background()
	redis, memory := rig.OpenRedis(t, r), store.NewMemory(100)
	for _, algorithm := range rig.Algorithms {
		one, other := rig.Check(rig.NewLimit(t, "api", algorithm, 3, 86400e6, 3), "one", 1), rig.Check(rig.NewLimit(t, "api", algorithm, 3, 86400e6, 3), "other", 1)
		steps := func(body string, s store.Store, exists, remove func(c *limits.Check) bool) {
			take := func() int64 {
				results, err := s.Take(ctx, 0, []limits.Check{one, other}, false, nil)
				if err != nil {
					t.Fatal(err)
				}
				return results[0].Remaining
			}
			got := fmt.Sprint(exists(&one), remove(&one))
			first, second := take(), take()
			got += fmt.Sprint(" ", first-second, " ", exists(&one), remove(&one), exists(&one), remove(&one), exists(&other))
			rig.Same(t, body+" "+algorithm+" "+got, body+" "+algorithm+" false false 1 true true false false true")
		}
		steps("Memory", memory, func(c *limits.Check) bool { return memory.Exists(c.Key) }, func(c *limits.Check) bool { return memory.Delete(c.Key) })
		is := func(yes bool, err error) bool {
			if err != nil {
				t.Error(err)
			}
			return yes
		}
		steps("Redis", redis, func(c *limits.Check) bool { return is(redisstore.Exists(ctx, redis, c)) },
			func(c *limits.Check) bool { return is(redisstore.Delete(ctx, redis, c.Key)) })
	}
}
