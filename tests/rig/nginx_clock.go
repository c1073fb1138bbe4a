package rig

import (
	"context"
	"testing"
	"time"
)

// five is what became of five requests to each limit, and between which instants of Redis.
type five struct {
	From, To time.Time
	Admitted map[string]int
}

func (s *Site) FiveOfEach(t *testing.T) five {
	t.Helper()
	f := five{From: s.RedisTime(t), Admitted: map[string]int{"fw": 0, "sw": 0, "tb": 0}}
	for range 5 {
		for name := range f.Admitted {
			switch got := s.Send(t, "GET /"+name, "").Status; got {
			case 200:
				f.Admitted[name]++
			case 429:
			default:
				t.Errorf("/%s: %d, want 200 or 429", name, got)
			}
		}
	}
	f.To = s.RedisTime(t)
	return f
}

func (s *Site) RedisTime(t *testing.T) time.Time {
	t.Helper()
	now, err := s.Redis.Time(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// AwaitPhase returns when Redis's clock is this far into a second, in the next one if it already is.
func (s *Site) AwaitPhase(t *testing.T, phase time.Duration) {
	t.Helper()
	now := s.RedisTime(t)
	at := now.Truncate(time.Second).Add(phase)
	if at.Before(now) {
		at = at.Add(time.Second)
	}
	for now.Before(at) {
		time.Sleep(at.Sub(now))
		now = s.RedisTime(t)
	}
}
