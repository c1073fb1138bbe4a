package service

import (
	"context"
	"crypto/rand"
	"time"

	"authz/internal/decision"
	"authz/internal/monotonic"
	"authz/internal/store"
	"authz/internal/store/redisstore"
	"authz/limits"
	"authz/redisscripts"
)

// EpochLife is how long an epoch is kept: the next one is another text, and who finds none changes nothing.
const EpochLife = 24 * time.Hour

// EpochKey holds the epoch: a reset changes it, and every refusal cache begins anew.
func EpochKey(prefix string) string { return prefix + ":" + redisscripts.Version + ":epoch" }

// epochEvery is how often the epoch is read: a reset is heard within a second.
const epochEvery = 500 * time.Millisecond

// remember begins to remember refusals, as long as ctx lasts.
func (s *Service) remember(ctx context.Context, max int, redis redisstore.Redis, epoch string) {
	s.Refusals = store.NewRefusals(max)
	s.Metrics.watch("authz_refusals", "Refusals that are remembered, to be given again without asking Redis.",
		func() float64 { return float64(s.Refusals.Len()) })
	go s.hearResets(ctx, redis, epoch)
}

// hearResets begins the refusal cache anew when the epoch has changed, and when it was out of reach: Redis may have lost
// what it refused. A Redis without an epoch may have lost everything, too. It gets one as soon as a refusal is cached;
// where it can have none, or its epoch cannot be read, the cache begins anew within two looks.
func (s *Service) hearResets(ctx context.Context, redis redisstore.Redis, key string) {
	ticks := time.NewTicker(epochEvery)
	defer ticks.Stop()
	var last string
	for known := false; ; {
		epoch, err := redisstore.Get(ctx, redis, key)
		if err == nil && (!known || epoch != last) || redisstore.IsReply(err) { // nobody would hear of a reset
			s.Refusals.Forget(monotonic.Now())
		}
		last, known = epoch, err == nil
		if known && epoch == "" && s.Refusals.Len() > 0 { // its new epoch is heard at the next look
			known = redisstore.SetNew(ctx, redis, key, rand.Text(), EpochLife) == nil
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// refusedBefore answers from what is remembered: a check that was refused is refused again until its
// wait is over. The others are not evaluated then.
func (s *Service) refusedBefore(q *request, checks []limits.Check, now time.Duration) (d decision.Decision) {
	if s.Refusals == nil {
		return decision.Decision{}
	}
	for i := range checks {
		c := &checks[i]
		waitUS := s.Refusals.WaitUS(c, now)
		if waitUS == 0 {
			continue
		}
		s.refuse(q, c, waitUS, decision.AsUsual, now)
		if waitUS > d.Result.WaitUS {
			d = decision.Decision{Verdict: decision.Limited, Limit: c.Limit, Rate: c.Rate, Result: store.Result{WaitUS: waitUS}}
		}
	}
	if d.Limit != nil {
		s.Metrics.remembered.Inc()
	}
	return d
}
