package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"authz/store"
)

// An inspector is a doctor that tries nothing: it looks at what can be seen of a Redis that serves, and logs
// what is wrong, once as long as it is found.
type inspector struct {
	doctor
	log *slog.Logger

	mu          sync.Mutex // of one look
	found, last map[string]bool
	evictions   evictions
}

func (f *serveCmd) inspector(redis store.Redis, s *service) *inspector {
	i := &inspector{log: s.log, evictions: evictions{metrics: s.metrics}, doctor: doctor{doctorCmd: &doctorCmd{RedisPrefix: f.RedisPrefix, redisFlags: f.redisFlags}, redis: redis}}
	i.report = func(word, what, text string) {
		if word != "wrong" {
			return
		}
		server := i.server.Addr()
		finding := server + " " + what + " " + text
		if i.found[finding] = true; !i.last[finding] {
			i.log.Warn("Redis is not as it should be, see authz doctor", "server", server, "what", what, "why", text)
		}
	}
	return i
}

// look looks at all servers, for a while at most.
func (i *inspector) look() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.found, i.last = map[string]bool{}, i.found
	for _, i.server = range i.servers() {
		i.identity()
		i.memory()
		i.countEvictions()
	}
}

func (i *inspector) servers() []*store.Server {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	servers, _ := i.redis.Servers(ctx) // those that cannot be found are somebody else's to tell
	return servers
}

// begin has Redis know the scripts, and looks at it: now, or when it is there. The error is that it is too
// old for the scripts, if that is seen now: nothing that is under way depends on this process yet.
func (i *inspector) begin(ctx context.Context, o *outage) error {
	err := loadScripts(i.redis)
	if err != nil {
		if never := neverWorks(err); never != "" {
			return fmt.Errorf("--redis=%s: %s: %s", i.redacted(), never, inShort(err))
		}
	}
	if !slices.Contains([]string{"timeout", "network", "pool"}, store.Kind(err)) {
		if old := i.tooOld(); old != nil {
			return old
		}
	}
	if err != nil {
		o.awaitRedis(ctx, i.redacted(), err, i.redis.Ping, i.look)
	} else {
		i.look()
	}
	return nil
}

// tooOld is an error if any server is.
func (i *inspector) tooOld() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, i.server = range i.servers() {
		about, err := i.about()
		if name, old := tooOld(about); err == nil && old {
			return fmt.Errorf("%s: %s is too old for the scripts, want %s or later", i.server.Addr(), name, oldest)
		}
	}
	return nil
}
