package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/redis"

	"authz/redisscripts"
)

// plain is the script of many requests in the plainest way: one EVALSHA a request.
func plain(c *redis.Client, r rate) (limiter, error) {
	const tokenBucket = 1
	n, w := lowestTerms(int64(r.count), r.period.Microseconds())
	now, checks, capacity, cost := 0, 1, int64(r.count)*w, 1
	return evalsha(c, redisscripts.Take(), 1, now, checks, tokenBucket, n, w, capacity, cost)
}

// single is the like, with the script of the algorithm, which the service calls for a single check.
func single(c *redis.Client, r rate) (limiter, error) {
	burst, cost := r.count, 1
	return evalsha(c, redisscripts.Named("token_bucket"), 0, r.count, r.period.Microseconds(), burst, cost)
}

// evalsha calls a script that answers with a row of four numbers after so many others.
func evalsha(c *redis.Client, script redisscripts.Script, others int, argv ...any) (limiter, error) {
	if err := c.ScriptLoad(context.Background(), script.Text).Err(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, int, int, error) {
		reply, err := c.EvalSha(ctx, script.SHA, []string{"authz:v1:{" + key + "}:api:tb"}, argv...).Int64Slice()
		if err == nil && len(reply) != others+4 {
			err = fmt.Errorf("%d numbers, want %d", len(reply), others+4)
		}
		if err != nil {
			return false, 0, 0, err
		}
		row := reply[others:]
		return row[0] == 1, int(row[1]), int((row[3] + 999_999) / 1_000_000), nil
	}, nil
}

func lowestTerms(n, w int64) (int64, int64) {
	a, b := n, w
	for b != 0 {
		a, b = b, a%b
	}
	return n / a, w / a
}

func redisRate(c *redis.Client, r rate) (limiter, error) {
	l := redis_rate.NewLimiter(c)
	limit := redis_rate.Limit{Rate: r.count, Burst: r.count, Period: r.period}
	return func(ctx context.Context, key string) (bool, int, int, error) {
		result, err := l.Allow(ctx, key, limit)
		if err != nil {
			return false, 0, 0, err
		}
		return result.Allowed > 0, result.Remaining, seconds(result.ResetAfter), nil
	}, nil
}

func throttledLimiter(c *redis.Client, r rate) (limiter, error) {
	store, err := throttledstore.NewCtx(c, "throttled:")
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(r.count, r.period), MaxBurst: r.count - 1}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, int, int, error) {
		refused, result, err := l.RateLimitCtx(ctx, key, 1)
		if err != nil {
			return false, 0, 0, err
		}
		return !refused, result.Remaining, seconds(result.ResetAfter), nil
	}, nil
}

// ululeLimiter counts in windows that begin with a client's first request: less than the others promise,
// and the cheapest script of all.
func ululeLimiter(c *redis.Client, r rate) (limiter, error) {
	store, err := ululestore.NewStore(c)
	if err != nil {
		return nil, err
	}
	l := ulule.New(store, ulule.Rate{Limit: int64(r.count), Period: r.period})
	return func(ctx context.Context, key string) (bool, int, int, error) {
		result, err := l.Get(ctx, key)
		if err != nil {
			return false, 0, 0, err
		}
		return !result.Reached, int(result.Remaining), seconds(time.Until(time.Unix(result.Reset, 0))), nil
	}, nil
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
