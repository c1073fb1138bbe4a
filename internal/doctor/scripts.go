package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"authz/internal/human"
	"authz/internal/store"
	"authz/internal/store/redisstore"
	"authz/limits"
	"authz/redisscripts"
)

// account tries each command that authz and its scripts need, by itself, since a script stops at the
// first that is denied.
func (d *Doctor) account() {
	text, log := d.key("account", "text"), d.key("account", "log")
	take := redisscripts.Take()
	commands := [][]any{ // in the order of README.md
		{"evalsha", take.SHA, "0", "1"}, // of no request, at a time of its own
		{"eval", take.Text, "0", "1"},
		{"script", "load", take.Text},
		{"time"},
		{"get", text},
		{"mget", text},
		{"set", text, "x", "px", "60000"},
		{"zadd", log, "xx", "1", "x"}, // which writes nothing
		{"zcard", log},
		{"zcount", log, "0", "1"},
		{"zrange", log, "0", "0"},
		{"zremrangebyscore", log, "0", "1"},
		{"pexpire", text, "60000"},
	}
	if d.Redis.IsCluster() {
		commands = append(commands, []any{"cluster", "slots"}, []any{"asking"})
	}
	missing := ""
	for _, words := range commands {
		_, err := d.Do(words...)
		switch lack := d.lacks(words, err); {
		case lack == "" || strings.Contains(missing+" ", lack+" "):
		case lack[1] == '~':
			missing = lack + missing
		default:
			missing += lack
		}
	}
	d.everlasting = strings.Contains(missing+" ", " +pexpire ")
	d.news()
	if missing != "" {
		d.wrong("account", "may not do all that is needed, want%s", missing)
		return
	}
	d.well("account", "may do all that is needed with keys that begin with %s:", d.Prefix)
}

// news says what a cluster's nodes may not tell. It is not needed as long as all of them know the same.
func (d *Doctor) news() {
	if !d.Redis.IsCluster() {
		return
	}
	if _, err := d.Do("cluster", "info"); redisstore.Kind(err) == "noperm" {
		d.unknown("cluster", "how new the news of a node is could not be looked at, want +cluster|info: "+
			"one that was cut off is believed like the others about who has which slots, and clients may be counted at both for seconds")
	}
}

// lacks is the rule of an ACL that would have allowed a command, after a space.
func (d *Doctor) lacks(words []any, err error) string {
	switch {
	case redisstore.Kind(err) != "noperm":
		return ""
	case strings.Contains(err.Error(), "access"): // a key
		return " ~" + d.Prefix + ":*"
	case words[0] == "script" || words[0] == "cluster":
		return fmt.Sprint(" +", words[0], "|", words[1])
	}
	return fmt.Sprint(" +", words[0])
}

// scripts tries each script: that it can be loaded, and that it charges, refuses, and charges again when
// the time has come.
func (d *Doctor) scripts() {
	var said findings
	for _, s := range redisscripts.All() {
		text := "not tried, since without +pexpire what they write would stay for ever"
		if !d.everlasting || s.Name != redisscripts.Take().Name && s.Name != limits.SlidingWindow.String() {
			text = d.try(s)
		}
		if said.add(s.Name, text); text != "" {
			d.broken[s.Name] = text
		}
	}
	for _, text := range said.texts {
		if names := strings.Join(said.names[text], ", "); text == "" {
			d.well("scripts", "charge and refuse: %s", names)
		} else {
			d.wrong("scripts", "%s: %s", names, text)
		}
	}
	if _, err := d.Do("script", "load", redisscripts.Take().Text); err != nil && redisstore.Kind(err) != "noperm" {
		d.wrong("scripts", "SCRIPT LOAD: %s; each script is sent whenever Redis does not know it", Advice(err))
	}
}

// findings are names by what there is to say of them.
type findings struct {
	texts []string
	names map[string][]string
}

func (f *findings) add(name, text string) {
	if f.names == nil {
		f.names = map[string][]string{}
	}
	if !slices.Contains(f.texts, text) {
		f.texts = append(f.texts, text)
	}
	f.names[text] = append(f.names[text], name)
}

// try says what is wrong with a script, "" for nothing.
func (d *Doctor) try(s redisscripts.Script) string {
	ask := d.single(s)
	if s.Name == redisscripts.Take().Name {
		ask = d.take()
	}
	now := time.Now().UnixMicro()
	for _, step := range []struct {
		nowUS int64
		want  bool
	}{{now, true}, {now, false}, {now + 2_000_000, true}, {0, false}} {
		peek := step.nowUS == 0 // and by Redis's own clock
		admitted, err := ask(step.nowUS, peek)
		if err != nil {
			return Advice(err)
		}
		if admitted != step.want && !peek {
			return "what was charged is not found again: is this several servers that do not share their data?"
		}
	}
	return ""
}

// oneASecond is a limit of each algorithm.
func oneASecond(algorithm limits.Algorithm) *limits.Limit {
	l := &limits.Limit{Name: algorithm.String(), Algorithm: algorithm, Rate: limits.Rate{Count: 1, WindowUS: 1_000_000}}
	switch algorithm {
	case limits.TokenBucket:
		l.Rate.Burst = 1
		fallthrough
	case limits.LeakyBucket:
		l.Rate.N, l.Rate.W, l.Rate.Capacity = 1, 1_000_000, 1_000_000
	}
	return l
}

// take asks the script take as the service does, for a limit of each algorithm.
func (d *Doctor) take() func(nowUS int64, peek bool) (bool, error) {
	checks := d.checks("take")
	return func(nowUS int64, peek bool) (bool, error) {
		results, err := d.Redis.Take(context.Background(), nowUS, checks, peek, nil)
		return !slices.ContainsFunc(results, func(r store.Result) bool { return !r.Allowed }), err
	}
}

func (d *Doctor) checks(limit string) (checks []limits.Check) {
	for _, algorithm := range limits.Algorithms {
		l := oneASecond(algorithm)
		checks = append(checks, limits.Check{Limit: l, Rate: &l.Rate, Key: []byte(d.key(limit, algorithm.Code())), Cost: 1})
	}
	return checks
}

// single asks the script of one algorithm as anybody may.
func (d *Doctor) single(s redisscripts.Script) func(nowUS int64, peek bool) (bool, error) {
	key, burst := d.key("single", s.Name), 0
	if s.Name == limits.TokenBucket.String() {
		burst = 1
	}
	return func(nowUS int64, peek bool) (bool, error) {
		asked := 0
		if peek {
			asked = 1
		}
		args := []any{"1", key, "1", "1000000", burst, "1", nowUS, asked}
		reply, err := d.Do(append([]any{"evalsha", s.SHA}, args...)...)
		if redisstore.Kind(err) == "noscript" {
			reply, err = d.Do(append([]any{"eval", s.Text}, args...)...)
		}
		numbers, ok := reply.([]any)
		if err == nil && (!ok || len(numbers) != 4) {
			err = fmt.Errorf("the answer is %v, want four numbers", reply)
		}
		return err == nil && numbers[0] == int64(1), err
	}
}

// Advice is what Redis said, and what would be right.
func Advice(err error) string {
	text := InShort(err)
	switch redisstore.Kind(err) {
	case "readonly":
		return "this is a replica, want its master: " + text
	case "oom":
		return "Redis is full, want a larger maxmemory: " + text
	case "misconf":
		return "Redis cannot save its data and takes no writes, see its log: " + text
	case "clusterdown", "moved", "crossslot":
		return "want a cluster that is whole, and ?cluster=true in the URL: " + text
	case "masterdown":
		return "this is a replica that has lost its master, want the master: " + text
	case "busy":
		return "somebody's script does not end, see SCRIPT KILL: " + text
	}
	if strings.HasPrefix(text, "ERR unknown command") {
		return "the command is not there, is this a proxy? " + text
	}
	return text
}

// speed says how long a check takes.
func (d *Doctor) speed() {
	const n = 20
	ask := d.take()
	var took []time.Duration
	for range n {
		start := time.Now()
		if _, err := ask(0, true); err != nil {
			return // which has been said
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	if slowest := took[n-1]; slowest > d.At.Timeout {
		d.wrong("speed", "%s a check, but %s for the slowest of %d, too late for --redis-timeout=%v", human.Duration(took[n/2]), human.Duration(slowest), n, d.At.Timeout)
	} else {
		d.well("speed", "%s a check, %s for the slowest of %d, in time for --redis-timeout=%v", human.Duration(took[n/2]), human.Duration(slowest), n, d.At.Timeout)
	}
}
