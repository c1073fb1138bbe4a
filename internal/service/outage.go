package service

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authz/internal/store/redisstore"
)

// An outage is what the log says of a store that fails: a failure of each kind at once, then one of that
// kind each lineEvery with how many were left out, however many requests meet them; and when it has not
// failed for so long, that it answers again. A store that comes and goes is one that fails, so that the
// log's last word is true.
type outage struct {
	Log   *slog.Logger
	on    atomic.Bool // the last word is that the store fails; written under mu
	heard atomic.Bool // it has answered a request since it failed

	mu       sync.Mutex
	first    time.Time // failure
	latest   time.Time
	kind     string // of the latest
	failures int
	lines    map[string]*line     // by kind
	opened   map[string]time.Time // breakers that are open, by server
}

// A line is what the log has of a kind of failure.
type line struct {
	Said    time.Time
	leftOut int       // since then
	latest  time.Time // failure
}

const lineEvery = 30 * time.Second

// failed is a request that the store could not decide.
func (o *outage) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !o.on.Load() {
		o.first, o.failures = now, 0
		o.on.Store(true)
	}
	o.heard.Store(false)
	o.latest, o.kind = now, redisstore.Kind(err)
	o.failures++
	l := o.line(o.kind)
	l.latest = now
	if now.Sub(l.Said) < lineEvery {
		l.leftOut++
		return
	}
	text := err.Error()
	if o.kind == "noperm" {
		text += "; see authz doctor" // which names all that the account lacks
	}
	attrs := []any{"kind", o.kind, "error", text}
	if l.leftOut > 0 {
		attrs = append(attrs, "left_out", l.leftOut)
	}
	*l = line{Said: now, latest: now}
	o.Log.Warn("the store cannot answer, on_error decides", attrs...)
}

func (o *outage) line(kind string) *line {
	l := o.lines[kind]
	if l == nil {
		if o.lines == nil {
			o.lines = map[string]*line{}
		}
		l = new(line)
		o.lines[kind] = l
	}
	return l
}

// answered is a request that the store has decided, during an outage.
func (o *outage) answered() {
	if !o.heard.Load() {
		o.heard.Store(true)
	}
}

// pinged are the kinds of failure that a ping, which charges nothing, meets too. Any other ends with a
// request that is answered.
var pinged = []string{"timeout", "queue", "pool", "network", "breaker", "loading", "busy", "noauth"}

// watch ends outages, until ctx ends. There may be no requests that would find out: it pings.
func (o *outage) watch(ctx context.Context, ping func(context.Context) error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if o.on.Load() {
			o.end(ping(ctx) == nil)
		}
	}
}

func (o *outage) end(ping bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !ping:
		o.latest = time.Now()
	case time.Since(o.latest) >= lineEvery && (o.heard.Load() || slices.Contains(pinged, o.kind)):
		o.on.Store(false)
		o.Log.Info("the store answers again", "failures", o.failures, "within", o.latest.Sub(o.first).Round(time.Millisecond))
	}
}

// failing is the kind of failure that goes on though the store answers pings, "" when there is none. An
// account may lack what some limits need: that others are answered says nothing of these, which go on
// until none has failed for lineEvery.
func (o *outage) failing() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if l := o.lines["noperm"]; l != nil && time.Since(l.latest) < lineEvery {
		return "noperm"
	}
	if !o.on.Load() || o.heard.Load() || slices.Contains(pinged, o.kind) {
		return ""
	}
	return o.kind
}

// awaitRedis says that Redis is not ready, and when it is; then it calls ready.
func (o *outage) awaitRedis(ctx context.Context, where string, err error, ping func(context.Context) error, ready func()) {
	o.Log.Warn("Redis is not ready, on_error decides until it is, see authz doctor", "redis", where, "kind", redisstore.Kind(err), "error", err.Error())
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for ping(ctx) != nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		o.Log.Info("Redis is ready", "redis", where)
		ready()
	}()
}

// turned says that the breaker in front of a server has opened, and why, or that it has closed, since Redis
// answers (nil) or nobody asks it. With that
// line, the failures of kind "breaker" have had theirs.
func (o *outage) turned(server string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if err == nil || err == redisstore.ErrRetired {
		why := "Redis answers"
		if err != nil {
			why = err.Error()
		}
		o.Log.Info("the breaker is closed: "+why, "server", server, "open_for", now.Sub(o.opened[server]).Round(time.Millisecond))
		delete(o.opened, server)
		return
	}
	if o.opened == nil {
		o.opened = map[string]time.Time{}
	}
	o.opened[server] = now
	o.line("breaker").Said = now
	o.Log.Warn("the breaker is open: Redis is not asked until a probe is answered, on_error decides",
		"server", server, "kind", redisstore.Kind(err), "error", err.Error())
}
