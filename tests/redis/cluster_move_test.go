package redis

import (
	"fmt"
	"strings"
	"testing"

	"authz/internal/store/redisstore"
	"authz/limits"
	"authz/tests/rig"
)

// roomy are limits of 10,000 in a time that does not end while a test runs.
func roomy(t *testing.T) (all []*limits.Limit) {
	for _, algorithm := range rig.Algorithms {
		windowUS, burst := int64(366*86400e6), int64(10000)
		switch algorithm {
		case "leaky_bucket":
			burst--
		case "sliding_counter":
			windowUS = 10 * 86400e6
		}
		all = append(all, rig.NewLimit(t, algorithm, algorithm, 10000, windowUS, burst))
	}
	return all
}

// Slots move under load, keys and all, there and back and there again: MOVED and ASK are followed, and
// so is TRYAGAIN, which requests for several keys meet when some of them have moved. Nobody meets an
// error, and what was admitted has been counted exactly.
func slotsMoveUnderLoad(t *testing.T, c *rig.RedisCluster, s redisstore.Redis) {
	all := roomy(t)
	tight := rig.NewLimit(t, "tight", "fixed_window", 500, 366*86400e6, 0)
	loads := []*rig.Load{
		rig.StartLoad(t, 6, s, &rig.Load{Users: []string{"a", "b", "c"}, Limits: all}),
		rig.StartLoad(t, 4, s, &rig.Load{Users: []string{"x", "y", "z"}, Limits: all, Several: true}),
		rig.StartLoad(t, 4, rig.OpenCluster(t, c), &rig.Load{Users: []string{"a", "x"}, Limits: all}),
		rig.StartLoad(t, 2, s, &rig.Load{Users: []string{"x", "y"}, Limits: all[1:], Several: true, Beside: "b"}), // over two slots
		rig.StartLoad(t, 2, s, &rig.Load{Users: []string{"a", "x"}, Limits: []*limits.Limit{tight}}),
	}
	meanwhile := func() {
		for _, l := range loads {
			l.GoesOn(40)
		}
	}
	meanwhile()
	for _, user := range []string{"a", "x", "b", "y"} {
		slot := c.SlotOf("{" + user + "}")
		from, to := c.OwnerOf(t, slot), c.Masters(t)[0]
		if to == from {
			to = c.Masters(t)[1]
		}
		c.Move(t, slot, from, to, meanwhile)
		c.Move(t, slot, to, from, meanwhile)
		c.Move(t, slot, from, to, meanwhile)
	}
	loads[4].GoesOn(1000) // until it is refused
	admitted := map[string]int{}
	for i, l := range loads {
		l.End()
		kinds := l.Kinds()
		t.Log(kinds)
		if delete(kinds, "admitted"); i == 4 {
			delete(kinds, "refused")
		}
		if len(kinds) > 0 {
			t.Errorf("load %d: %v, want all admitted", i, kinds)
		}
		for outcome, n := range l.Outcomes {
			words := strings.Fields(outcome)
			switch {
			case l.Several:
				for _, limit := range l.Limits {
					admitted[limit.Name+" "+words[1]] += n
				}
				if l.Beside != "" {
					admitted[l.Limits[len(l.Limits)-1].Name+" "+l.Beside] += n
				}
			case words[2] == "admitted":
				admitted[words[0]+" "+words[1]] += n
			}
		}
	}
	for _, user := range []string{"a", "b", "c", "x", "y", "z"} {
		for _, l := range all {
			rig.Same(t, fmt.Sprint(l.Name, user, 10000-rig.Left(t, s, rig.Check(l, user, 1))), fmt.Sprint(l.Name, user, admitted[l.Name+" "+user]))
		}
	}
	rig.Same(t, fmt.Sprint(admitted["tight a"], admitted["tight x"]), "500 500")
}
