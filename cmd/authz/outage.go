package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authz/store"
)

// An outage is what the log says of a store that fails: at once that it does, and that it answers when
// it has not failed for a while. A store that comes and goes is one that fails, so that the log's last
// word is true and there are few of them.
type outage struct {
	log *slog.Logger
	on  atomic.Bool // the last word is that the store fails; written under mu

	mu     sync.Mutex
	latest time.Time // of the failures
	said   time.Time // that it fails
	kind   string    // of the latest failure
	over   string    // the last word, when it comes
}

const calm = 5 * time.Second

// unpinged are the kinds of failure that a ping, which charges nothing, does not meet.
var unpinged = []string{"oom", "readonly", "misconf", "noperm", "wrongtype", "clusterdown"}

// failed says so, and again once a minute.
func (o *outage) failed(err error) {
	o.begin(err, "the store cannot answer, on_error decides", "the store answers again")
}

// begin is failed in other words; over is the last.
func (o *outage) begin(err error, words, over string, attrs ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.latest, o.kind = time.Now(), store.Kind(err)
	if !o.on.Load() {
		o.over = over
	} else if o.latest.Sub(o.said) < time.Minute {
		return
	}
	o.said = o.latest
	o.on.Store(true)
	o.log.Warn(words, append(attrs, "kind", o.kind, "error", err.Error())...)
}

// answered ends the outage, if it was the last for a while.
func (o *outage) answered() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.on.Load() && time.Since(o.latest) >= calm {
		o.on.Store(false)
		o.log.Info(o.over)
	}
}

// watch pings the store during outages, until ctx ends: there may be no requests that would find out.
func (o *outage) watch(ctx context.Context, ping func(context.Context) error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !o.on.Load() {
			continue
		}
		switch err := ping(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			o.failed(err)
		case !o.unpinged():
			o.answered()
		}
	}
}

func (o *outage) unpinged() bool { return slices.Contains(unpinged, o.failing()) }

// failing is the kind of the latest failure, "" when there is no outage.
func (o *outage) failing() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.on.Load() {
		return ""
	}
	return o.kind
}
