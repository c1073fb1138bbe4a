// Package prove attacks a limit of a running set-up, and judges by what a client sees whether its promise is held.
package prove

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"authz/internal/header"
	"authz/internal/human"
	"authz/internal/route"
	"authz/limits"
)

type Options struct {
	URL       string        `name:"url" help:"Where the limit is met: of the site, or with --direct of authz itself." required:"" placeholder:"URL"`
	Limit     string        `help:"Name of the limit; without --limits no more than what the report calls it." required:"" placeholder:"NAME"`
	Limits    []string      `help:"Limits file, or folder of *.toml, that has its numbers; may be repeated." sep:"none" placeholder:"FILE|DIR"`
	Algorithm string        `help:"Its algorithm, without --limits." placeholder:"NAME"`
	Rate      string        `help:"Its rate, without --limits." placeholder:"COUNT/[N]UNIT"`
	Burst     *int64        `help:"Its burst, without --limits." placeholder:"N"`
	Requests  int           `help:"The most requests to send." default:"10000"`
	For       time.Duration `help:"The longest to attack; 0 for three windows and 10s, 4m at most." default:"0s"`
	Method    string        `help:"Method of the requests." default:"GET"`
	Header    []string      `short:"H" sep:"none" help:"A header of the requests; may be repeated." placeholder:"NAME: VALUE"`
	Vary      string        `help:"A header with {n} in its value, for another key in each attack." placeholder:"NAME: VALUE{n}"`
	Direct    bool          `help:"Ask authz itself about the URL, at /nginx of its host, as nginx would; so if the URL's path is /nginx."`
	Yes       bool          `help:"Send requests to another machine without asking." env:"-"`
	JSON      bool          `name:"json" help:"Write what came of it as JSON."`

	target    *url.URL
	headers   [][2]string
	algorithm limits.Algorithm // without --limits
	rate      *limits.Rate
	varied    [2]string // no name: none
}

// Help is what --help says beside the flags.
func (*Options) Help() string {
	return `Attacks one limit, and says whether more was admitted than its algorithm promises. Exit code 0: the
promise was held; 1: it was broken, or the run cannot tell, and a sentence says which; 2: usage.

Four attacks follow each other: a crowd (twice what is admitted at once, over 50 connections), a retry when
Retry-After says, bursts on both sides of the boundary of an aligned window, and a flood of four times the rate
for a window. The first line says how many requests that makes; --requests and --for cut it off, and then the
promise may be broken, but cannot be held: for that a whole window, a boundary and a flood have to be seen.

A Host among the headers is the host that is asked for, X-Authz-Zone with --direct the zone.

429 is refused; 2xx, 3xx and 404 are admitted; all else is no verdict. Without --vary all requests are of the
client that this machine is. Directly, each attack has an address of its own, unless X-Real-IP is given.

A Retry-After is too short if the one retry after it, and then another, are refused. So is one that is capped, as
by serve --retry-after-max. If others use the key, which shows if the crowd gets less than an unused key admits,
the run cannot tell.

The numbers are those of the limit, as they are in force; a run that would meet a schedule's other numbers does
not begin. Nor does one that the limits file says the limit does not meet, that an override has other numbers for,
or whose requests cost more than 1.`
}

// The most that --requests may be: a judgment looks at all pairs.
const mostRequests = 50_000

// Validate also reads --url, --algorithm, --rate, --header and --vary.
func (f *Options) Validate() (err error) {
	f.headers = nil // a command line may validate twice
	f.target, err = url.Parse(f.URL)
	switch {
	case err != nil || f.target.Scheme != "http" && f.target.Scheme != "https" || f.target.Hostname() == "" || f.target.User != nil:
		return fmt.Errorf("--url=%s: want http://HOST/PATH or https://HOST/PATH", f.URL)
	case len(f.Limits) > 0 && (f.Algorithm != "" || f.Rate != "" || f.Burst != nil):
		return errors.New("--limits and --algorithm, --rate or --burst: want one or the other")
	case len(f.Limits) == 0 && (f.Algorithm == "" || f.Rate == ""):
		return errors.New("want --limits=FILE|DIR, or --algorithm and --rate")
	case f.Requests < 1 || f.Requests > mostRequests:
		return fmt.Errorf("--requests=%d: want 1 to %d", f.Requests, mostRequests)
	case f.For < 0:
		return fmt.Errorf("--for=%v: want a time, such as 30s", f.For)
	}
	if len(f.Limits) == 0 {
		if err := f.readRate(); err != nil {
			return err
		}
	}
	f.Direct = f.Direct || f.target.Path == route.All[0].Path
	for _, h := range f.Header {
		pair, err := header.Parse(h)
		if err != nil {
			return fmt.Errorf("--header=%s: %w", h, err)
		}
		f.headers = append(f.headers, pair)
	}
	if f.Vary != "" {
		if f.varied, err = header.Parse(f.Vary); err != nil || !strings.Contains(f.varied[1], "{n}") {
			return fmt.Errorf("--vary=%s: want NAME: VALUE with {n} in it, such as 'X-API-Key: prove-{n}'", f.Vary)
		}
	}
	return nil
}

// readRate reads the numbers that stand in no limits file; what is wrong there is wrong here.
func (f *Options) readRate() (err error) {
	if f.algorithm, err = algorithmOf(f.Algorithm); err != nil {
		return fmt.Errorf("--algorithm=%s: %w", f.Algorithm, err)
	}
	rate, err := limits.ParseRate(f.Rate)
	if err != nil {
		return fmt.Errorf("--rate=%w", err)
	}
	if f.rate = &rate; !rate.Unlimited {
		f.rate = limits.NewRate(f.algorithm, rate.Count, rate.WindowUS, f.Burst)
	}
	least := int64(0)
	switch f.algorithm {
	case limits.TokenBucket:
		least = 1
	case limits.LeakyBucket:
	default:
		if f.Burst != nil {
			return fmt.Errorf("--burst=%d: want none: only token_bucket and leaky_bucket have a burst, this is a %s", *f.Burst, f.algorithm)
		}
		return nil
	}
	if f.rate.Unlimited || f.rate.Count == 0 {
		return nil
	}
	most := f.rate.MaxSize(f.algorithm) - (f.rate.Size(f.algorithm) - f.rate.Burst)
	switch {
	case f.rate.Burst >= least && f.rate.Burst <= most:
		return nil
	case f.Burst == nil:
		return fmt.Errorf("--rate=%s: want --burst=N, %d to %d at this rate, it is %d: more cannot be counted exactly", f.Rate, least, most, f.rate.Burst)
	}
	return fmt.Errorf("--burst=%d: want %d to %d at %s: more cannot be counted exactly", *f.Burst, least, most, f.rate)
}

// Proof is a run by these options, of the limit in set, if there is one, at a time in microseconds since 1970. An error
// says what is wrong with the options.
func (f *Options) Proof(set *limits.Set, nowUS int64) (*proof, error) {
	promise, l, err := f.promised(set, nowUS)
	if err != nil {
		return nil, err
	}
	p := &proof{prober: newProber(f), promise: promise, lasts: f.For, name: f.Limit, requests: f.Requests, left: int(min(promise.plan(), int64(f.Requests))),
		known: l, knownUS: nowUS}
	if p.lasts == 0 {
		p.lasts = min(promise.lasts(), 4*time.Minute)
	}
	if l != nil {
		p.limit = f.Limit
	}
	return p, nil
}

// Host is who is attacked, and whether all that is sent stays on this machine.
func (f *Options) Host() (host string, isHere bool) {
	return f.target.Host, isLoopback(f.target.Hostname())
}

// Left is how many requests may be sent.
func (p *proof) Left() int { return p.left }

// Run attacks. Begun is told of the limit, and each of an attack and what came of it.
func (p *proof) Run(begun func(limit string), each func(name, said string)) (*report, error) {
	p.began = time.Now()
	if p.known != nil {
		if err := p.keepsItsNumbers(p.known, p.knownUS); err != nil {
			return nil, err
		}
	}
	begun(fmt.Sprintf("%s: %s; %s to %s at most, for %s at most", p.name, p.promise, human.Count(p.left, "request"), p.target.Host, p.lasts))
	p.tell = func(a *attack) { each(a.Name, a.Said) }
	p.run()
	r := p.report()
	r.Limit, r.URL = p.name, p.target.String()
	return r, nil
}

// promised finds the limit's numbers at a time, in microseconds since 1970, and the limit, nil without --limits.
func (f *Options) promised(set *limits.Set, nowUS int64) (p *promise, l *limits.Limit, err error) {
	algorithm, rate := f.algorithm, f.rate
	if set != nil {
		if l, err = set.Limit(f.Limit); err != nil {
			return nil, nil, err
		}
		if l.Shadow {
			return nil, nil, fmt.Errorf(`limit.%s has mode = "shadow", which refuses nobody`, f.Limit)
		}
		algorithm = l.Algorithm
		rate, _ = l.InForce(nowUS)
	}
	if rate.Unlimited || rate.Size(algorithm) == 0 {
		return nil, nil, fmt.Errorf("a rate of %s promises nothing that could be proved, want one that admits some", rate)
	}
	if l != nil {
		if err := f.Meets(set, l, nowUS); err != nil {
			return nil, nil, err
		}
	}
	return promiseOf(algorithm, rate), l, nil
}

func algorithmOf(name string) (limits.Algorithm, error) {
	var known []string
	for _, a := range limits.Algorithms {
		if a.String() == name {
			return a, nil
		}
		known = append(known, a.String())
	}
	return 0, fmt.Errorf("want one of %s", strings.Join(known, ", "))
}
