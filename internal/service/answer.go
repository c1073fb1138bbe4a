package service

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"authz/internal/decision"
	"authz/internal/monotonic"
	"authz/internal/store"
	"authz/internal/store/redisstore"
	"authz/internal/toptalkers"
	"authz/limits"
)

// A Service answers checks.
type Service struct {
	Rules atomic.Pointer[Rules] // loaded once a request, swapped once a reload
	store store.Store
	local store.Store // decides with this instance's share when store cannot

	Refusals *store.Refusals // nil: the store is asked every time
	Refused  *toptalkers.Talkers
	History  history
	LastLoad atomic.Pointer[lastLoad]

	peers   Peers
	style   headerStyle
	heldMax int64
	held    atomic.Int64 // answers that wait, or may have to

	Metrics *metrics
	Log     *slog.Logger
	warned  warned
	outage  outage

	reloader *reloader
	Stores   stores
	Draining atomic.Bool // it ends

	requests sync.Pool
}

// warned bounds the warnings, to one a minute of a kind.
type warned struct {
	ignored, noAddress, badAddress, rejected, panicked monotonic.OncePerMinute
	flawed                                             [flaws]monotonic.OncePerMinute
}

// answer decides the request. A bug in here is answered like a store that cannot decide under
// on_error = "deny", 503 to the client: a 500 or a dead process would be nginx's to judge, and may be
// what it lets pass.
func (s *Service) answer(ctx *fasthttp.RequestCtx, at int, q *request) (d decision.Decision) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked(p)
			q.broken = true
			d = decision.Decision{Verdict: decision.Unavailable}
		}
	}()
	q.rules = s.Rules.Load()
	peer, trusted := s.peers.of(ctx.RemoteAddr())
	q.read(&ctx.Request.Header, at, trusted)
	if q.ignored > 0 {
		s.ignored(peer, q.ignored)
	}
	if f := s.resolve(q); f != flawless {
		return decision.Decision{Verdict: decision.Blocked}
	}
	if q.rules.Set.Schedules() > 0 {
		q.attrs.NowUS = time.Now().UnixMicro()
	}
	q.rules.Set.Match(&q.attrs, &q.match)
	for _, l := range q.match.Missing {
		q.rules.Of(l).missing.Inc()
	}
	for _, l := range q.match.Unlimited {
		q.rules.Of(l).Admitted.Inc()
	}
	switch q.match.Verdict {
	case limits.Allow:
		q.rules.allow[q.match.Rule].Inc()
	case limits.Deny:
		return q.denied()
	case limits.Limits:
		return s.decide(q)
	}
	return decision.Decision{}
}

// resolve finds the attributes, and says what is strange about them.
func (s *Service) resolve(q *request) flaw {
	f, unreadable := q.resolve(s.peers.trusted)
	if len(unreadable) > 0 {
		s.Metrics.badAddress.Inc()
		if s.warned.badAddress.Due() {
			s.Log.Warn("the address of a client cannot be read; it counts as ip=unknown", "address", shortened(unreadable),
				"cure", cureOf(unreadable), q.logged())
		}
	}
	if f != flawless {
		s.Metrics.flawed[f].Inc()
		s.flawed(q, f)
	} else if len(unreadable) == 0 && !q.attrs.IP.IsValid() {
		s.Metrics.noAddress.Inc()
		if s.warned.noAddress.Due() {
			s.Log.Warn("request without a client address: set X-Real-IP in the proxy; it counts as ip=unknown", q.logged())
		}
	}
	return f
}

// flawed logs what the proxy does wrong. A target or a host that nginx refuses is the client's doing.
func (s *Service) flawed(q *request, f flaw) {
	switch {
	case f == badTarget || f == badHost || !s.warned.flawed[f].Due():
	case f == wrongRoute:
		s.Log.Warn("request blocked: its header is another proxy's", "route", q.route.Path, "header", q.foreign,
			"cure", q.route.Cure(q.foreign), q.logged())
	default:
		s.Log.Warn("request blocked: nginx does not say what it is, see nginx/README.md", "kind", f.String(),
			"header", q.blamed(f), q.logged())
	}
}

// shortened is a text of any length and bytes, for a log that quotes it.
func shortened(text []byte) string {
	const most = 64
	if len(text) > most {
		return string(text[:most]) + "..."
	}
	return string(text)
}

// cureOf is what makes a client's address readable.
func cureOf(address []byte) string {
	if bytes.HasPrefix(address, []byte("unix:")) {
		return "nginx listens on a unix socket: set_real_ip_from unix: and real_ip_header name the client there"
	}
	return "want one address, such as 203.0.113.9, in the proxy's header: X-Real-IP $remote_addr in nginx"
}

// denied is blocked by a deny rule, or by a limit whose missing = "deny": that one is named.
func (q *request) denied() decision.Decision {
	if l := q.match.Limit; l != nil {
		q.rules.Of(l).blocked.Inc()
	} else {
		q.rules.deny[q.match.Rule].Inc()
	}
	return decision.Decision{Verdict: decision.Blocked, Limit: q.match.Limit}
}

// decide asks the store about the checks, if it has to.
func (s *Service) decide(q *request) decision.Decision {
	start := monotonic.Now()
	for i := range q.match.Checks {
		if c := &q.match.Checks[i]; c.Rate.Count == 0 {
			s.refuse(q, c, -1, decision.AsUsual, start)
		}
	}
	checks, d := decision.RefuseAtOnce(q.match.Checks)
	if d.Verdict == decision.Limited || len(checks) == 0 {
		return d
	}
	if d := s.refusedBefore(q, checks, start); d.Limit != nil {
		return d
	}
	if c := decision.Holding(checks); c != nil {
		if s.held.Add(1) > s.heldMax {
			s.held.Add(-1)
			d := decision.TooManyHeld(c)
			s.refuse(q, c, d.Result.WaitUS, decision.AsUsual, start)
			return d
		}
		q.holds = true
	}
	results, err := s.store.Take(context.Background(), 0, checks, false, q.results[:0])
	now := monotonic.Now()
	s.Metrics.storeTime.Observe((now - start).Seconds())
	if err != nil {
		return s.degrade(q, checks, err, now)
	}
	if s.outage.on.Load() {
		s.outage.answered()
	}
	d = s.conclude(q, checks, results, decision.AsUsual, now)
	if d.Verdict == decision.Limited && s.Refusals != nil {
		s.Refusals.Learn(checks, results, start)
	}
	return d
}

// conclude counts what each limit said, and makes one answer of it.
func (s *Service) conclude(q *request, checks []limits.Check, results []store.Result, by decision.Degraded, now time.Duration) decision.Decision {
	q.results = results
	for i := range checks {
		c, r := &checks[i], &results[i]
		if r.Later {
			continue // shadowAnswered counts it
		}
		if !r.Allowed {
			s.refuse(q, c, r.WaitUS, by, now)
			continue
		}
		counters := q.rules.Of(c.Limit)
		counters.Admitted.Inc()
		if decision.Near(c, r) {
			counters.Near.Inc()
		}
	}
	return decision.Decide(checks, results)
}

// shadowAnswered counts the answer of a shadow limit that was asked apart, while its request went on. A failure says
// nothing of the requests that the store decides.
func (s *Service) shadowAnswered(c *limits.Check, r store.Result, err error) {
	if err != nil {
		s.Metrics.storeErrors.WithLabelValues(redisstore.Kind(err)).Inc()
		return
	}
	rules := s.Rules.Load()
	if all := rules.Set.Limits(); c.Limit.Index >= len(all) || all[c.Limit.Index] != c.Limit {
		return // of a set that is no longer in force
	}
	if r.Allowed {
		rules.Of(c.Limit).Admitted.Inc()
	} else {
		rules.Of(c.Limit).limited.Inc()
	}
}

// refuse counts that a limit refuses a request.
func (s *Service) refuse(q *request, c *limits.Check, waitUS int64, by decision.Degraded, now time.Duration) {
	q.rules.Of(c.Limit).limited.Inc()
	if c.Limit.Shadow {
		return
	}
	why := toptalkers.Refusal{RetryAfterS: -1, Degraded: by, RequestID: q.requestID()}
	if waitUS >= 0 {
		why.RetryAfterS = s.style.retryAfter(waitUS)
	}
	s.Refused.Note(c, now, why)
}

// degrade answers without the store.
func (s *Service) degrade(q *request, checks []limits.Check, err error, now time.Duration) decision.Decision {
	kind, clientCaused := redisstore.Kind(err), redisstore.ClientCanCause(err)
	s.Metrics.storeErrors.WithLabelValues(kind).Inc()
	s.outage.failed(err)
	local, d := decision.Degrade(checks, q.local[:0], clientCaused)
	q.local = local
	if d.Verdict == decision.Admitted && len(local) > 0 {
		results, err := s.local.Take(context.Background(), 0, local, false, q.results[:0])
		if err != nil {
			panic("BUG: the in-memory store failed: " + err.Error())
		}
		if byShare := s.conclude(q, local, results, d.Degraded, now); byShare.Limit != nil {
			byShare.Degraded = d.Degraded
			d = byShare
		}
	}
	for _, c := range checks {
		switch by := decision.OnError(c.Limit, clientCaused); {
		case by == decision.ByDeny && !c.Limit.Shadow:
			q.rules.Of(c.Limit).unavailable.Inc()
		case by == decision.ByAllow:
			q.rules.Of(c.Limit).Admitted.Inc()
		}
	}
	if d.Degraded != decision.AsUsual {
		s.Metrics.degraded[d.Degraded].Inc()
	}
	return d
}

func (s *Service) ignored(peer netip.Addr, n int) {
	s.Metrics.ignored.Add(float64(n))
	if s.warned.ignored.Due() {
		who := "unix"
		if peer.IsValid() {
			who = peer.String()
		}
		s.Log.Warn("headers ignored: the peer is not one of --trusted-proxies", "peer", who,
			"cure", "name it there, beside those that are: the flag replaces the default")
	}
}

// panicked says where. What was said may hold a client's bytes, unless Go or we have said it.
func (s *Service) panicked(p any) {
	s.Metrics.panics.Inc()
	if !s.warned.panicked.Due() {
		return
	}
	what := "a panic"
	switch p := p.(type) {
	case runtime.Error:
		what = p.Error()
	case string:
		if strings.HasPrefix(p, "BUG: ") {
			what = p
		}
	}
	s.Log.Error("BUG in authz, the request is answered as unavailable", "error", what, "stack", string(debug.Stack()))
}
