// Package doctor says what a Redis lacks that authz needs.
package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"authz/internal/store/redisstore"
	"authz/limits"
	"authz/redisscripts"
)

// Options are where Redis is, and who is told.
type Options struct {
	Redis  redisstore.Redis   // that has the time of slow answers
	At     redisstore.Options // as authz opens it: its Timeout is a request's
	Prefix string             // of keys

	Report func(word, what, text string) // "ok", "unknown" or "wrong"; what was looked at; what was found
}

// A Doctor looks at a Redis as authz needs it, and says what is well and what is not, a line each. It
// tries the scripts on keys of its own, which it deletes; where it may not, they expire within minutes.
//
// What Redis says is told without what it quotes of a command, and addresses without user and password.
type Doctor struct {
	Options
	sick bool

	Server *redisstore.Server // that is being looked at: in a cluster one after the other
	name   string             // of the keys there, which nobody else has
	keys   []string           // that may be there

	everlasting bool // the account may not have a log expire

	broken map[string]string // what is wrong with scripts, by name, on any server
}

// Patience is how long the doctor waits for an answer: longer than authz would, to see what is slow. The
// first answer, which may never come, is awaited for firstPatience.
const (
	Patience      = 5 * time.Second
	FirstPatience = 2 * time.Second
)

func (d *Doctor) first() time.Duration { return max(FirstPatience, d.At.Timeout) }

// New makes a doctor.
func New(o Options) *Doctor {
	return &Doctor{Options: o, broken: map[string]string{}}
}

// Visit looks at all there is, and tries the limits of set if there is one. It reports whether all is well.
func (d *Doctor) Visit(set *limits.Set) (well bool) {
	d.examine(set)
	return !d.sick
}

// examine looks at all servers, and then at the limits if there are some.
func (d *Doctor) examine(set *limits.Set) {
	ctx, cancel := context.WithTimeout(context.Background(), d.first())
	defer cancel()
	servers, err := d.Redis.Servers(ctx)
	if err != nil {
		d.wrong("connection", "%s: %s", redisstore.Redacted(d.At.URL), d.whyNot(err))
		return
	}
	for _, s := range servers {
		name := redisstore.Redacted(d.At.URL)
		if len(servers) > 1 {
			name = s.Addr()
		}
		if d.Server = s; !d.connection(name) {
			set = nil // what cannot be reached cannot try them
			continue
		}
		d.keys, d.name = nil, d.newName()
		if !d.Identity() {
			set = nil
			continue
		}
		d.clock()
		d.Memory()
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
func (d *Doctor) newName() (name string) {
	for range 1000 {
		name = "doctor-" + rand.Text()
		if _, err := d.Do("get", d.Prefix+":"+redisscripts.Version+":{"+name+"}"); redisstore.Kind(err) != "moved" {
			break
		}
	}
	return name
}

// well, unknown and wrong are a finding.
func (d *Doctor) well(what, format string, a ...any) { d.Report("ok", what, fmt.Sprintf(format, a...)) }

func (d *Doctor) unknown(what, format string, a ...any) {
	d.Report("unknown", what, fmt.Sprintf(format, a...))
}

func (d *Doctor) wrong(what, format string, a ...any) {
	d.sick = true
	d.Report("wrong", what, fmt.Sprintf(format, a...))
}

func (d *Doctor) Do(words ...any) (any, error) { return d.Server.Do(context.Background(), words...) }

// key is one of the doctor's own keys.
func (d *Doctor) key(limit, code string) string {
	key := fmt.Sprintf("%s:%s:{%s}:%s:%s", d.Prefix, redisscripts.Version, d.name, limit, code)
	d.keys = append(d.keys, key)
	return key
}

func (d *Doctor) cleanUp() {
	words := []any{"del"}
	for _, key := range d.keys {
		words = append(words, key)
	}
	d.Do(words...)
}

// InShort is what Redis said, without where in a script.
func InShort(err error) string {
	text, where, _ := strings.Cut(err.Error(), " script: ")
	if !strings.Contains(where, ", on @") {
		return err.Error()
	}
	return text
}
