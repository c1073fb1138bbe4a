package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"authz/internal/doctor"
	"authz/internal/store/redisstore"
)

// An inspector is a doctor that tries nothing: it looks at what can be seen of a Redis that serves, and logs
// what is wrong, once as long as it is found.
type inspector struct {
	*doctor.Doctor
	log *slog.Logger

	mu          sync.Mutex // of one look
	found, last map[string]bool
	evictions   evictions
}

func newInspector(o doctor.Options, s *Service) *inspector {
	i := &inspector{log: s.Log, evictions: evictions{metrics: s.Metrics}}
	o.Report = func(word, what, text string) {
		if word != "wrong" {
			return
		}
		server := i.Server.Addr()
		finding := server + " " + what + " " + text
		if i.found[finding] = true; !i.last[finding] {
			i.log.Warn("Redis is not as it should be, see authz doctor", "server", server, "what", what, "why", text)
		}
	}
	i.Doctor = doctor.New(o)
	return i
}

// look looks at all servers, for a while at most.
func (i *inspector) look() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.found, i.last = map[string]bool{}, i.found
	for _, i.Server = range i.servers() {
		i.Identity()
		i.Memory()
		i.countEvictions()
	}
}

func (i *inspector) servers() []*redisstore.Server {
	ctx, cancel := context.WithTimeout(context.Background(), doctor.Patience)
	defer cancel()
	servers, _ := i.Redis.Servers(ctx) // those that cannot be found are somebody else's to tell
	return servers
}

// begin has Redis know the scripts, and looks at it: now, or when it is there. The error is that it is too
// old for the scripts, if that is seen now: nothing that is under way depends on this process yet.
func (i *inspector) begin(ctx context.Context, o *outage) error {
	err := redisstore.LoadScripts(i.Redis)
	if err != nil {
		if never := doctor.NeverWorks(err); never != "" {
			return fmt.Errorf("--redis=%s: %s: %s", redisstore.Redacted(i.At.URL), never, doctor.InShort(err))
		}
	}
	if !slices.Contains([]string{"timeout", "network", "pool"}, redisstore.Kind(err)) {
		if old := i.tooOld(); old != nil {
			return old
		}
	}
	if err != nil {
		o.awaitRedis(ctx, redisstore.Redacted(i.At.URL), err, i.Redis.Ping, i.look)
	} else {
		i.look()
	}
	return nil
}

// tooOld is an error if any server is.
func (i *inspector) tooOld() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, i.Server = range i.servers() {
		about, err := i.About()
		if name, old := doctor.TooOld(about); err == nil && old {
			return fmt.Errorf("%s: %s is too old for the scripts, want %s or later", i.Server.Addr(), name, doctor.Oldest)
		}
	}
	return nil
}
