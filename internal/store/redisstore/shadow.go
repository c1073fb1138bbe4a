package redisstore

import (
	"context"
	"slices"
	"time"

	"authz/internal/store"
	"authz/limits"
)

// A shadowed is a Redis in which shadow limits cost the others nothing: no wait, no failure. A shadow that can be asked in
// the same call as the enforcing limits is. Any other is asked apart, while the request goes on: in a cluster one in another
// slot, and each of a request that has shadows alone. A key of another type fails its shadow, and not the request.
type shadowed struct {
	Redis
	told func(c *limits.Check, r store.Result, err error) // takes in the answer of a shadow that was asked apart
	room chan struct{}
}

// mostShadows is how many requests may have shadows that are asked apart, at once.
const mostShadows = 1024

var errShadows = &kindError{"queue", errLate.err}

func newShadowed(r Redis, told func(*limits.Check, store.Result, error)) *shadowed {
	return &shadowed{Redis: r, told: told, room: make(chan struct{}, mostShadows)}
}

// Take is Store.Take. The result of a shadow that is asked apart has Later set, and nothing else.
func (s *shadowed) Take(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []store.Result) ([]store.Result, error) {
	if peek || !slices.ContainsFunc(checks, isShadow) {
		return s.Redis.Take(ctx, nowUS, checks, peek, dst)
	}
	apart := func(c limits.Check) bool { return c.Limit.Shadow && s.goesApart(c, checks) }
	if slices.ContainsFunc(checks, apart) {
		return s.divide(ctx, nowUS, checks, apart, nil, dst)
	}
	got, err := s.Redis.Take(ctx, nowUS, checks, peek, dst)
	if err == errWrongType && slices.ContainsFunc(checks, isEnforcing) {
		return s.divide(ctx, nowUS, checks, isShadow, err, dst) // nothing was charged
	}
	return got, err
}

func isShadow(c limits.Check) bool { return c.Limit.Shadow }

func isEnforcing(c limits.Check) bool { return !c.Limit.Shadow }

// goesApart reports whether a shadow cannot be in a call with an enforcing check of its request.
func (s *shadowed) goesApart(c limits.Check, checks []limits.Check) bool {
	return !slices.ContainsFunc(checks, func(other limits.Check) bool {
		return isEnforcing(other) && (!s.IsCluster() || slotOf(other.Key) == slotOf(c.Key))
	})
}

// divide asks for the checks that are not apart, and has the others asked later: charged if the request is admitted. With
// failed they are not asked: that is their answer.
func (s *shadowed) divide(ctx context.Context, nowUS int64, checks []limits.Check, apart func(limits.Check) bool, failed error, dst []store.Result) ([]store.Result, error) {
	var mine, others []limits.Check
	for _, c := range checks {
		if apart(c) {
			others = append(others, c)
		} else {
			mine = append(mine, c)
		}
	}
	results, err := s.Redis.Take(ctx, nowUS, mine, false, nil)
	if err != nil {
		return dst, err
	}
	admitted := true
	for _, c := range checks {
		if apart(c) {
			dst = append(dst, store.Result{Later: true})
			continue
		}
		admitted = admitted && (results[0].Allowed || c.Limit.Shadow)
		dst = append(dst, results[0])
		results = results[1:]
	}
	if failed == nil {
		failed = s.askLater(nowUS, others, !admitted)
	}
	if failed != nil {
		for i := range others {
			s.told(&others[i], store.Result{}, failed)
		}
	}
	return dst, nil
}

// askLater asks for shadows without anybody waiting. It fails if too many are under way.
func (s *shadowed) askLater(nowUS int64, checks []limits.Check, peek bool) error {
	select {
	case s.room <- struct{}{}:
	default:
		return errShadows
	}
	for i := range checks {
		checks[i].Key = slices.Clone(checks[i].Key) // its memory is used again when the request has been answered
	}
	go func() {
		defer func() { <-s.room }()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		results, err := s.Redis.Take(ctx, nowUS, checks, peek, nil)
		for i := range checks {
			if err != nil {
				s.told(&checks[i], store.Result{}, err)
			} else {
				s.told(&checks[i], results[i], nil)
			}
		}
	}()
	return nil
}
