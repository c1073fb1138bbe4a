package service

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authz/internal/store/redisstore"
)

// evictions counts the keys that Redis evicts, of all servers, while this process looks: each may be a client
// whose count begins again. Where the account may not ask there is no such metric.
type evictions struct {
	metrics *metrics
	total   prometheus.Counter // nil until a server has told
	last    map[string]int64   // by server
}

const (
	evictionsEvery  = 5 * time.Second
	evictionsSeldom = 5 * time.Minute // where the account may not ask: ACL LOG has a line of each try
)

// learn takes in what a server has evicted since it started.
func (e *evictions) learn(server string, evicted int64) {
	if e.total == nil {
		e.total = e.metrics.counter("authz_redis_evicted_keys_total", "Keys that Redis has evicted while this process looked, in a cluster all of its masters. "+
			"Whoever was counted under one begins again; absent where the account may not ask.")
		e.last = map[string]int64{}
	}
	last, known := e.last[server]
	e.last[server] = evicted
	switch {
	case evicted < last: // it has started anew
		e.total.Add(float64(evicted))
	case known:
		e.total.Add(float64(evicted - last))
	}
}

// countEvictions asks the server that is being looked at, and says whether the account may.
func (i *inspector) countEvictions() (may bool) {
	reply, err := i.Do("info", "stats")
	text, _ := reply.(string)
	_, after, _ := strings.Cut(text, "\nevicted_keys:")
	line, _, _ := strings.Cut(after, "\n")
	if evicted, bad := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil && bad == nil {
		i.evictions.learn(i.Server.Addr(), evicted)
	}
	return redisstore.Kind(err) != "noperm"
}

// watchEvictions goes on asking, until ctx ends.
func (i *inspector) watchEvictions(ctx context.Context) {
	for pause := evictionsEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		i.mu.Lock()
		pause = evictionsEvery
		for _, i.Server = range i.servers() {
			if !i.countEvictions() {
				pause = evictionsSeldom
			}
		}
		i.mu.Unlock()
	}
}
