package service

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"authz/internal/buildinfo"
	"authz/internal/decision"
	"authz/internal/store/redisstore"
	"authz/limits"
)

// metrics is all that /metrics shows. Labels are names of limits and rules, verdicts and kinds of errors: never
// anything that a client sent.
type metrics struct {
	Registry *prometheus.Registry

	requests    [decision.Verdicts]prometheus.Counter
	decisions   *prometheus.CounterVec
	byRule      *prometheus.CounterVec
	missing     *prometheus.CounterVec
	near        *prometheus.CounterVec
	degraded    [decision.ByDeny + 1]prometheus.Counter
	remembered  prometheus.Counter
	storeTime   prometheus.Histogram
	storeErrors *prometheus.CounterVec
	flawed      [flaws]prometheus.Counter
	rejected    *prometheus.CounterVec
	ignored     prometheus.Counter
	noAddress   prometheus.Counter
	badAddress  prometheus.Counter
	panics      prometheus.Counter
	AdminDenied prometheus.Counter
	reloaded    prometheus.Gauge
	reloadTime  prometheus.Gauge
	limits      prometheus.Gauge
}

// limitCounters is what one limit said of requests, found once for each load of the file.
type limitCounters struct {
	Admitted, limited prometheus.Counter
	Near              prometheus.Counter // of admitted
	blocked           prometheus.Counter // missing = "deny"; nil for a shadow, which blocks nobody
	unavailable       prometheus.Counter // on_error = "deny"; nil likewise
	missing           prometheus.Counter
}

func newMetrics() *metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &metrics{Registry: r}

	requests := m.counters("authz_requests_total", "Checks by their answer; what is no HTTP (authz_rejected_requests_total) or asks for another path (404) is not among them.", "verdict")
	for v := range decision.Verdicts {
		m.requests[v] = requests.WithLabelValues(v.String())
	}
	m.decisions = m.counters("authz_decisions_total", "What each limit said of the requests that met it; "+
		"a request is admitted when every limit but the shadows admits it.", "limit", "verdict")
	m.byRule = m.counters("authz_rule_decisions_total", "Requests that an allow rule admitted or a deny rule blocked.", "rule", "verdict")
	m.missing = m.counters("authz_key_parts_missing_total", "Requests in which a part of the limit's key was missing.", "limit")
	m.near = m.counters("authz_near_limit_total", "Requests that a limit admitted with less than a fifth of its capacity left after them; the first of a bucket is not among them.", "limit")
	by := m.counters("authz_degraded_total", "Requests that the store could not decide, by the on_error that did.", "on_error")
	for d := decision.ByAllow; d <= decision.ByDeny; d++ {
		m.degraded[d] = by.WithLabelValues(d.String())
	}
	m.remembered = m.counter("authz_remembered_refusals_total",
		"Requests refused without asking Redis, which had refused the like before and said for how long.")
	m.storeTime = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "authz_store_duration_seconds",
		Help:    "How long the store took to decide a request, or to fail.",
		Buckets: []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25}})
	m.storeErrors = m.counters("authz_store_errors_total", "Requests that the store could not decide, by what went wrong.", "kind")
	for _, kind := range redisstore.Kinds {
		m.storeErrors.WithLabelValues(kind)
	}
	flawed := m.counters("authz_flawed_requests_total", "Requests blocked because nothing can be made of them: the proxy "+
		"does not say what they are (no_method, no_uri), says it twice (said_twice) or is another proxy than the route is "+
		"for (wrong_route), or nginx answers 400 to the target or the host (bad_target, bad_host).", "kind")
	for f := flawless + 1; f < flaws; f++ {
		m.flawed[f] = flawed.WithLabelValues(f.String())
	}
	m.rejected = m.counters("authz_rejected_requests_total", "Requests blocked because they are no HTTP that we read.", "kind")
	for _, kind := range rejections {
		m.rejected.WithLabelValues(kind)
	}
	m.ignored = m.counter("authz_ignored_headers_total", "Headers that only a trusted proxy may send, from other peers.")
	m.noAddress = m.counter("authz_unknown_ip_total", "Requests without any client address.")
	m.badAddress = m.counter("authz_unreadable_ip_total",
		"Requests whose client address cannot be read, such as unix:; they count as ip=unknown.")
	m.panics = m.counter("authz_panics_total", "Requests answered as unavailable because of a bug in authz.")
	m.AdminDenied = m.counter("authz_admin_denied_total", "Writes on the admin listener that were refused: without the token, with a wrong one, or sent by a page of another site.")
	m.reloaded = m.gauge("authz_limits_last_reload_successful", "Whether the last load of the limits succeeded.")
	m.reloadTime = m.gauge("authz_limits_last_reload_success_timestamp_seconds", "When the limits were last loaded.")
	m.limits = m.gauge("authz_limits", "Limits in force.")
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "authz_build_info", Help: "The version that runs; always 1."},
		[]string{"version", "revision", "goversion"})
	build.WithLabelValues(buildinfo.Version(), buildinfo.Revision(), runtime.Version()).Set(1)
	r.MustRegister(m.storeTime, build)
	return m
}

func (m *metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.Registry.MustRegister(c)
	return c
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.Registry.MustRegister(c)
	return c
}

func (m *metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.Registry.MustRegister(g)
	return g
}

// watch shows a number that something else keeps.
func (m *metrics) watch(name, help string, value func() float64) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// watchTotal shows a number that something else counts.
func (m *metrics) watchTotal(name, help string, value func() float64) {
	m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

// sent makes the series of calls to Redis, and returns what counts one.
func (m *metrics) sent() func(requests int) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "authz_redis_call_requests",
		Help: "How many requests one call to Redis decided; those that come at the same time share calls.", Buckets: []float64{1, 2, 4, 8, 16, 32, 64, 128}})
	m.Registry.MustRegister(h)
	return func(requests int) { h.Observe(float64(requests)) }
}

// breakers makes the series of breakers that are closed, and returns what tells them when one opens or
// closes. In a cluster there is one for each node.
func (m *metrics) breakers() (turned func(open bool)) {
	var open atomic.Int64
	for state, in := range map[string]func() bool{"open": func() bool { return open.Load() > 0 }, "closed": func() bool { return open.Load() == 0 }} {
		m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "authz_breaker_state",
			Help: "1 for the state of the breaker in front of Redis, in a cluster open if that of any node is. " +
				"Open means that Redis is not asked, and on_error decides.", ConstLabels: prometheus.Labels{"state": state}}, func() float64 {
			if in() {
				return 1
			}
			return 0
		}))
	}
	openings := m.counter("authz_breaker_openings_total", "How often a breaker in front of Redis has opened.")
	return func(isOpen bool) {
		if isOpen {
			openings.Inc()
			open.Add(1)
		} else {
			open.Add(-1)
		}
	}
}

// limitVerdicts is what a limit can say of a request.
var limitVerdicts = []string{"admitted", "limited", "blocked", "unavailable", "shadow_admitted", "shadow_limited"}

// forLimit makes the limit's series, which begin at 0.
func (m *metrics) forLimit(l *limits.Limit) limitCounters {
	said := func(verdict string) prometheus.Counter { return m.decisions.WithLabelValues(l.Name, verdict) }
	missing, near := m.missing.WithLabelValues(l.Name), m.near.WithLabelValues(l.Name)
	if l.Shadow {
		return limitCounters{Admitted: said("shadow_admitted"), limited: said("shadow_limited"), missing: missing, Near: near}
	}
	return limitCounters{Admitted: said("admitted"), limited: said("limited"), blocked: said("blocked"),
		unavailable: said("unavailable"), missing: missing, Near: near}
}

// ofRules makes the series of allow or deny rules, which begin at 0.
func (m *metrics) ofRules(names []string, v decision.Verdict) map[string]prometheus.Counter {
	counters := map[string]prometheus.Counter{}
	for _, name := range names {
		counters[name] = m.byRule.WithLabelValues(name, v.String())
	}
	return counters
}

// forget drops the series of what is in old and no longer in set: they would stand still for ever.
func (m *metrics) forget(old, set *limits.Set) {
	stays := map[string]bool{} // by limit: whether it is a shadow
	for _, l := range set.Limits() {
		stays[l.Name] = l.Shadow
	}
	for _, l := range old.Limits() {
		if shadow, ok := stays[l.Name]; !ok || shadow != l.Shadow {
			for _, verdict := range limitVerdicts {
				m.decisions.DeleteLabelValues(l.Name, verdict) // a partial match would go through all series
			}
			m.missing.DeleteLabelValues(l.Name)
			m.near.DeleteLabelValues(l.Name)
		}
	}
	for v, verdict := range map[limits.Verdict]decision.Verdict{limits.Allow: decision.Admitted, limits.Deny: decision.Blocked} {
		rules := set.Rules(v) // by name
		for _, name := range old.Rules(v) {
			if _, ok := slices.BinarySearch(rules, name); !ok {
				m.byRule.DeleteLabelValues(name, verdict.String())
			}
		}
	}
}

func (m *metrics) loaded(n int, now time.Time) {
	m.reloaded.Set(1)
	m.reloadTime.Set(float64(now.UnixMilli()) / 1000)
	m.limits.Set(float64(n))
}
