package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// A row is a few contestants who are measured in turn, A B C A B C ..., so that what else the machine
// does falls on all of them.
type row struct {
	name        string
	about       string
	contestants []string
	rate        rate
	keys        int
	connections int
	share       float64 // of the saturation of one EVALSHA a request: an open loop; 0: a closed one
	unix        bool    // contestants listen on a unix socket
}

// saturation is the name under which a row with a share keeps the runs that find the rate.
const saturation = "saturation"

func rowsFor(o options) []row {
	others := slices.Sorted(maps.Keys(o.rivals))
	rows := []row{
		{name: "redis", about: "the service alone, Redis, one limit, all admitted",
			contestants: []string{"floor", "authz", "plain"}},
		{name: "memory", about: "the service alone, without asking Redis",
			contestants: []string{"floor", "memory", "refused"}},
		{name: "nginx", about: "through nginx and a unix socket, Redis, one limit",
			contestants: []string{"nginx-floor", "nginx-authz", "nginx-snippet", "nginx-plain"}},
		{name: "limits", about: "three limits on one key",
			contestants: []string{"authz", "three", "sliding"}},
		{name: "many", about: "many limits and overrides, of which a request meets one",
			contestants: []string{"ten", "many"}},
		{name: "rivals", about: "libraries behind the same handler",
			contestants: append([]string{"floor", "authz", "redis_rate", "throttled", "ulule"}, others...)},
		{name: "hot", about: "the same with one client only", rate: vast, keys: 1,
			contestants: append([]string{"authz", "redis_rate", "throttled", "ulule"}, others...)},
		{name: "single", about: "one connection, one request at a time", connections: 1,
			contestants: []string{"single", "authz", "floor", "memory"}},
		{name: "half", about: "half of the rate that saturates one EVALSHA a request", share: 0.5, connections: 256,
			contestants: []string{"plain", "authz", "floor"}},
		{name: "ninety", about: "0.9 of the rate that saturates one EVALSHA a request", share: 0.9, connections: 256,
			contestants: []string{"plain", "authz", "floor"}},
	}
	for i := range rows {
		r := &rows[i]
		if r.rate == (rate{}) {
			r.rate = usual
		}
		if r.keys == 0 {
			r.keys = 10_000
		}
		if r.connections == 0 {
			r.connections = closedConnections
		}
	}
	return rows
}

// closedConnections are those of a closed loop.
const closedConnections = 64

// samples are the runs of a row by contestant, one a round.
type samples map[string][]sample

// perform measures a row. A contestant that fails is left out from then on and is in the error; the
// others go on.
func (s *stage) perform(r row) (samples, error) {
	defer s.curtain()
	var failed []error
	var cast []*contestant
	for _, name := range r.contestants {
		c, err := s.cast(name, r)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
			continue
		}
		cast = append(cast, c)
	}
	all := samples{}
	for range s.options.rounds {
		perSecond, err := s.perSecond(r, cast, all)
		if err != nil {
			return all, errors.Join(append(failed, err)...)
		}
		cast = slices.DeleteFunc(cast, func(c *contestant) bool {
			one, err := s.measure(c, r.connections, perSecond)
			if err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", c.name, err))
				return true
			}
			all[c.name] = append(all[c.name], one)
			return false
		})
		fmt.Fprint(os.Stderr, ".")
	}
	return all, errors.Join(failed...)
}

// cast starts a contestant and sees that it answers as it should.
func (s *stage) cast(name string, r row) (*contestant, error) {
	e, err := s.entryOf(name)
	if err != nil {
		return nil, err
	}
	c, err := e.start(s, r)
	if err != nil {
		return nil, err
	}
	c.name = name
	return c, c.rehearse(s.ctx)
}

// perSecond is the fixed rate of a row with a share. It is found anew in each round, by a closed loop
// over the row's first contestant, since the machine may have become another by then.
func (s *stage) perSecond(r row, cast []*contestant, all samples) (float64, error) {
	if r.share == 0 {
		return 0, nil
	}
	if len(cast) == 0 || cast[0].name != r.contestants[0] {
		return 0, fmt.Errorf("no rate without %s", r.contestants[0])
	}
	full, err := s.measure(cast[0], closedConnections, 0)
	if err != nil {
		return 0, fmt.Errorf("%s, saturated: %w", cast[0].name, err)
	}
	all[saturation] = append(all[saturation], full)
	return r.share * full.perSecond, nil
}
