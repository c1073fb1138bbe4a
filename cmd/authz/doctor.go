package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"authz/limits"
	"authz/redisscripts"
	"authz/store"
)

type doctorCmd struct {
	Limits      []string `help:"Limits file, or folder of *.toml, whose limits are tried too; may be repeated." sep:"none" placeholder:"FILE|DIR"`
	RedisPrefix string   `help:"What Redis keys begin with." default:"authz"`
	redisFlags
}

func (f *doctorCmd) Validate() error {
	if f.Redis == "" {
		return errors.New("want --redis=URL")
	}
	return f.redisFlags.Validate()
}

// A doctor looks at a Redis as authz needs it, and says what is well and what is not, a line each. It
// tries the scripts on keys of its own, which it deletes; where it may not, they expire within minutes.
//
// What Redis says is told without what it quotes of a command, and addresses without user and password.
type doctor struct {
	*doctorCmd
	redis  store.Redis
	report func(word, what, text string)
	sick   bool

	server *store.Server // that is being looked at: in a cluster one after the other
	name   string        // of the keys there, which nobody else has
	keys   []string      // that may be there

	everlasting bool // the account may not have a log expire

	broken map[string]string // what is wrong with scripts, by name, on any server
}

// patience is how long the doctor waits for an answer: longer than authz would, to see what is slow. The
// first answer, which may never come, is awaited for firstPatience.
const (
	patience      = 5 * time.Second
	firstPatience = 2 * time.Second
)

func (d *doctor) first() time.Duration { return max(firstPatience, d.RedisTimeout) }

func (f *doctorCmd) Run(c *console) error {
	if err := redisscripts.Verify(); err != nil {
		return err
	}
	var set *limits.Set
	if len(f.Limits) > 0 {
		var err error
		if set, err = c.loadLimits(f.RedisPrefix, f.Limits); err != nil {
			return err
		}
	}
	flags := f.redisFlags
	flags.RedisTimeout = max(patience, f.RedisTimeout)
	redis, err := flags.open(nil, nil, nil)
	if err != nil {
		return err
	}
	defer redis.Close()
	d := &doctor{doctorCmd: f, redis: redis, broken: map[string]string{}, report: func(word, what, text string) {
		fmt.Fprintf(c.out, "%-8s %-11s %s\n", word, what, text)
	}}
	d.examine(set)
	if d.sick {
		return exit(1)
	}
	return nil
}

// examine looks at all servers, and then at the limits if there are some.
func (d *doctor) examine(set *limits.Set) {
	ctx, cancel := context.WithTimeout(context.Background(), d.first())
	defer cancel()
	servers, err := d.redis.Servers(ctx)
	if err != nil {
		d.wrong("connection", "%s: %s", d.redacted(), d.whyNot(err))
		return
	}
	for _, s := range servers {
		name := d.redacted()
		if len(servers) > 1 {
			name = s.Addr()
		}
		if d.server = s; !d.connection(name) {
			set = nil // what cannot be reached cannot try them
			continue
		}
		d.keys, d.name = nil, d.newName()
		if !d.identity() {
			set = nil
			continue
		}
		d.clock()
		d.memory()
		d.account()
		d.scripts()
		d.speed()
		d.cleanUp()
	}
	if set != nil {
		d.limits(set)
	}
}

// newName is a name whose keys are on this server. In a cluster that is found by asking.
func (d *doctor) newName() (name string) {
	for range 1000 {
		name = "doctor-" + rand.Text()
		if _, err := d.do("get", d.RedisPrefix+":"+redisscripts.Version+":{"+name+"}"); store.Kind(err) != "moved" {
			break
		}
	}
	return name
}

// well, unknown and wrong are a finding.
func (d *doctor) well(what, format string, a ...any) { d.report("ok", what, fmt.Sprintf(format, a...)) }

func (d *doctor) unknown(what, format string, a ...any) {
	d.report("unknown", what, fmt.Sprintf(format, a...))
}

func (d *doctor) wrong(what, format string, a ...any) {
	d.sick = true
	d.report("wrong", what, fmt.Sprintf(format, a...))
}

func (d *doctor) do(words ...any) (any, error) { return d.server.Do(context.Background(), words...) }

// key is one of the doctor's own keys.
func (d *doctor) key(limit, code string) string {
	key := fmt.Sprintf("%s:%s:{%s}:%s:%s", d.RedisPrefix, redisscripts.Version, d.name, limit, code)
	d.keys = append(d.keys, key)
	return key
}

func (d *doctor) cleanUp() {
	words := []any{"del"}
	for _, key := range d.keys {
		words = append(words, key)
	}
	d.do(words...)
}

// inShort is what Redis said, without where in a script.
func inShort(err error) string {
	text, where, _ := strings.Cut(err.Error(), " script: ")
	if !strings.Contains(where, ", on @") {
		return err.Error()
	}
	return text
}
