package prove

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"authz/internal/human"
	"authz/limits"
)

// A proof is one run: attacks on a limit, one after the other, and what was seen of them.
type proof struct {
	*prober
	promise *promise
	lasts   time.Duration
	name    string        // of the limit
	known   *limits.Limit // by the limits file; nil without
	knownUS int64         // when its numbers were read, since 1970
	tell    func(*attack)

	switchesUS int64 // when a schedule gives the limit other numbers, since 1970; 0: not soon

	requests, left int // that may be sent, and still may

	keys       int // that were used
	seen       observations
	attacks    []*attack
	crowded    span         // when the crowd came
	boundaryUS int64        // when an aligned window is taken to end; 0: no boundary was tried
	early      *observation // a refusal when Retry-After had said otherwise
	crowdGot   int64        // that were admitted of the crowd
	whole      []string     // the attacks that were tried to the end
}

// An attack is a report line: what was tried, and what came of it.
type attack struct {
	Name     string `json:"name"`
	Said     string `json:"said"` // or why it was not tried
	Requests int    `json:"requests"`
	Admitted int64  `json:"admitted"`
	Refused  int64  `json:"refused"`
	Other    int64  `json:"other"`
}

// plan is how many requests show what the limit does: a crowd of twice what it admits at once, as many again
// on both sides of a boundary, a flood of four times what it admits in a window, and two to retry.
func (p *promise) plan() int64 {
	const tooMany = 1 << 50 // so that sums and products fit
	return 4*min(p.size(), tooMany) + 4*min(p.rate.Count, tooMany) + 2
}

// lasts is how long a run takes that sees everything: a retry, a boundary and a flood may each take a window.
func (p *promise) lasts() time.Duration {
	return 3*time.Duration(p.rate.WindowUS)*time.Microsecond + 10*time.Second
}

// size is what an unused key admits at once.
func (p *promise) size() int64 { return p.rate.Size(p.algorithm) }

// endUS is when it is over, since the run began.
func (p *proof) endUS() int64 { return p.lasts.Microseconds() }

// switchMarginUS is how long after a run the numbers must stay: clocks differ, and what was sent last has to be
// decided.
const switchMarginUS = 2_000_000

// keepsItsNumbers is an error if a schedule gives the limit other numbers, since nowUS, before the run is over.
func (p *proof) keepsItsNumbers(l *limits.Limit, nowUS int64) error {
	beganUS := p.began.UnixMicro()
	atUS := l.SwitchUS(nowUS, beganUS+p.endUS()+switchMarginUS)
	if atUS == 0 {
		p.switchesUS = l.SwitchUS(nowUS, beganUS+p.endUS()+time.Hour.Microseconds())
		return nil
	}
	left := time.Duration(atUS-beganUS-switchMarginUS) * time.Microsecond
	text := fmt.Sprintf("nothing was sent: a schedule gives limit.%s other numbers at %s, and the run may take %v; want one after that",
		l.Name, time.UnixMicro(atUS).UTC().Format(time.RFC3339), p.lasts)
	if left = left.Truncate(time.Second); left >= time.Second {
		text += fmt.Sprintf(", or --for=%v, which may be too short to say that the promise is held", left)
	}
	return errors.New(text)
}

// unused is what a key admits at once that nobody has used.
func (p *promise) unused() int64 {
	if p.rate.Initial > 0 {
		return p.rate.Initial
	}
	return p.size()
}

// run attacks. What is first needs the least time, in case there is none for the rest.
func (p *proof) run() {
	p.keys = 1
	p.attack("crowd", p.crowd)
	if p.seen.count(sawNothing) == int64(len(p.seen)) {
		return // this is not the place
	}
	p.attack("retry", p.retry)
	p.nextKey()
	p.attack("boundary", p.boundary)
	p.nextKey()
	p.attack("flood", p.flood)
}

func (p *proof) attack(name string, run func() string) {
	before := len(p.seen)
	a := &attack{Name: name, Said: run()}
	seen := p.seen[before:]
	a.Requests, a.Admitted, a.Refused, a.Other = len(seen), seen.count(sawAdmitted), seen.count(sawRefused), seen.count(sawNothing)
	p.attacks = append(p.attacks, a)
	p.tell(a)
}

// nextKey takes a key that was not used yet, if keys are ours to choose.
func (p *proof) nextKey() {
	if p.hasOwnKeys() {
		p.keys++
	}
}

// crowd sends twice what is admitted at once, over many connections at once.
func (p *proof) crowd() string {
	seen := p.fire(2*p.promise.size(), 0)
	p.crowded, p.crowdGot = seen.span(), seen.count(sawAdmitted)
	return fmt.Sprintf("%s over %s at once, within %s: %s", human.Count(len(seen), "request"), human.Count(min(len(seen), connections), "connection"), seen.took(), seen)
}

// retry sends one request when a refusal of the crowd said that one would be admitted, and if it is refused,
// one more when that refusal says. While nobody else asks for the key the second has to be admitted: nothing
// of ours was under way beside the first, as other requests of the crowd were beside the refusal.
func (p *proof) retry() string {
	refusal := p.lastRefusal()
	if refusal == nil {
		return "not tried: nothing was refused"
	}
	first, said := p.retryAfter(refusal)
	if first == nil || first.verdict != sawRefused {
		return said
	}
	second, more := p.retryAfter(first)
	if second != nil && second.verdict == sawRefused {
		p.early = first
	}
	return said + "; " + more
}

// retryAfter sends one request when a refusal says. It is nil if that cannot be.
func (p *proof) retryAfter(refusal *observation) (again *observation, said string) {
	waitUS := refusal.retryAfterS * 1_000_000
	switch {
	case waitUS < 1:
		return nil, "not tried: a refusal says no Retry-After in seconds"
	case refusal.toUS+waitUS > p.endUS():
		return nil, fmt.Sprintf("not tried: Retry-After is %ds, and time is over before; see --for", refusal.retryAfterS)
	}
	p.sleepUntil(refusal.toUS + waitUS + slackUS(waitUS))
	seen := p.fire(1, 0)
	if len(seen) == 0 {
		return nil, "not tried: no request or no time is left"
	}
	return &seen[0], fmt.Sprintf("%ds after a refusal, as its Retry-After said: %s", refusal.retryAfterS, seen[0].verdict)
}

func (p *proof) lastRefusal() (last *observation) {
	for i := range p.seen {
		if o := &p.seen[i]; o.verdict == sawRefused && (last == nil || o.toUS > last.toUS) {
			last = o
		}
	}
	return last
}

// boundary sends what is admitted at once just before an aligned window ends, and again just after. It begins
// a second before, or a quarter of a window if that is shorter, so that what comes late comes before it too. With
// the key of the crowd it waits for a window in which the crowd was not, if there is time.
func (p *proof) boundary() string {
	rate := p.promise.rate
	windowUS := rate.WindowUS
	aheadUS, unsureUS, clock := p.serverClock()
	leadUS := min(p.crowded.lengthUS()+1_000_000, windowUS/4) + unsureUS
	startUS := p.began.UnixMicro() + aheadUS // the server's clock as the run began
	next := func(afterUS int64) int64 {
		return rate.WindowBeginUS(startUS+afterUS) + windowUS - startUS
	}
	atUS := next(p.nowUS() + leadUS)
	if later := next(p.crowded.toUS + unsureUS + windowUS); !p.hasOwnKeys() && later > atUS && later <= p.endUS() {
		atUS = later
	}
	if atUS > p.endUS() {
		return fmt.Sprintf("not tried: the next is in %s, and time is over before; see --for", human.Micros(atUS-p.nowUS()))
	}
	p.boundaryUS = atUS
	p.sleepUntil(atUS - leadUS)
	before := p.fire(p.promise.size(), 0)
	p.sleepUntil(atUS + unsureUS + 1000)
	after := p.fire(p.promise.size(), 0)
	if int64(len(before)+len(after)) == 2*p.promise.size() {
		p.whole = append(p.whole, "boundary")
	}
	return fmt.Sprintf("%s from %s before %s on, by %s: %s; %d after it: %s", human.Count(len(before), "request"), human.Micros(leadUS),
		time.UnixMicro(startUS+atUS).UTC().Format("15:04:05.000"), clock, before, len(after), after)
}

// serverClock says how far the server's clock is ahead of ours, as far as Date can tell: unless that says
// otherwise, they are taken to be the same. A Date may be of the second before.
func (p *proof) serverClock() (aheadUS, unsureUS int64, whose string) {
	startUS := p.began.UnixMicro()
	least, most := int64(-1<<62), int64(1<<62)
	for i := range p.seen {
		if o := &p.seen[i]; !o.date.IsZero() {
			least = max(least, o.date.UnixMicro()-startUS-o.toUS)
			most = min(most, o.date.UnixMicro()+2_000_000-startUS-o.fromUS)
		}
	}
	if least <= 0 && most >= 0 || least > most || most-least > p.promise.rate.WindowUS/2 {
		return 0, 0, "the clock here"
	}
	return (least + most) / 2, (most - least) / 2, "the server's Date"
}

// flood sends four times what a window admits, evenly, for as long as a window, or time, lasts. If that is a whole
// window, the last is sent when it ends.
func (p *proof) flood() string {
	windowUS, all := p.promise.rate.WindowUS, 4*min(p.promise.rate.Count, 1<<50)
	lastsUS := min(windowUS, p.endUS()-p.nowUS())
	n := min(all, int64(p.left))
	if n == 0 || lastsUS <= 0 {
		return "not tried: no request or no time is left"
	}
	everyUS := max(1, lastsUS/n)
	if lastsUS == windowUS {
		everyUS = windowUS/max(1, n-1) + 1
	}
	seen := p.fire(n, everyUS)
	if int64(len(seen)) == all && lastsUS == windowUS {
		p.whole = append(p.whole, "flood")
	}
	return fmt.Sprintf("%s within %s: %s", human.Count(len(seen), "request"), seen.took(), seen)
}

// fire sends n requests, the next everyUS after the one before (0: as soon as there is a connection), and returns
// when all are answered, or when time is over.
func (p *proof) fire(n, everyUS int64) observations {
	n = min(n, int64(p.left))
	p.left -= int(n)
	var (
		next    atomic.Int64
		senders sync.WaitGroup
		startUS = p.nowUS()
		first   = p.request(p.keys)
		seen    = make([]observations, min(n, connections))
	)
	for i := range seen {
		senders.Go(func() {
			req := &fasthttp.Request{UseHostHeader: true}
			first.CopyTo(req)
			for k := next.Add(1) - 1; k < n; k = next.Add(1) - 1 {
				p.sleepUntil(startUS + k*everyUS)
				if p.nowUS() > p.endUS() {
					return
				}
				seen[i] = append(seen[i], p.ask(req, p.keys))
			}
		})
	}
	senders.Wait()
	all := slices.Concat(seen...)
	p.seen = append(p.seen, all...)
	return all
}

func (p *proof) sleepUntil(atUS int64) {
	if waitUS := atUS - p.nowUS(); waitUS > 0 {
		time.Sleep(time.Duration(waitUS) * time.Microsecond)
	}
}

// observations are of one attack, or of all.
type observations []observation

// span is from the first request to the last answer.
func (seen observations) span() (s span) {
	for i, o := range seen {
		if i == 0 {
			s = o.span
		}
		s = span{min(s.fromUS, o.fromUS), max(s.toUS, o.toUS)}
	}
	return s
}

func (seen observations) took() string { return human.Micros(seen.span().lengthUS()) }

func (seen observations) count(v sighting) (n int64) {
	for i := range seen {
		if seen[i].verdict == v {
			n++
		}
	}
	return n
}

func (seen observations) ofKey(key int) (of observations) {
	for i := range seen {
		if seen[i].key == key {
			of = append(of, seen[i])
		}
	}
	return of
}

func (seen observations) admitted() (spans []span) {
	for i := range seen {
		if seen[i].verdict == sawAdmitted {
			spans = append(spans, seen[i].span)
		}
	}
	return spans
}

// String is "5 admitted, 3 refused", and how many were no verdict if there are any.
func (seen observations) String() string {
	text := fmt.Sprintf("%d admitted, %d refused", seen.count(sawAdmitted), seen.count(sawRefused))
	if n := seen.count(sawNothing); n > 0 {
		text += fmt.Sprintf(", %d no verdict", n)
	}
	return text
}
