package admin

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"authz/internal/buildinfo"
	"authz/internal/explain"
	"authz/internal/human"
	"authz/internal/monotonic"
	"authz/internal/replay"
	"authz/internal/service"
	"authz/internal/toptalkers"
	"authz/limits"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"micros": human.Micros}).Parse(pageText))

// A pageView is all that the page says.
type pageView struct {
	Version, Now string
	Store        string
	StoreIsWell  bool
	Breaker      string // "" without Redis
	Loaded       string
	LoadError    string
	Limits       []shownLimit
	TopMinute    []toptalkers.Key
	TopHour      []toptalkers.Key
	ReadOnly     string // why nothing can be changed here, if so
	WantsToken   bool

	Limit  string // of the form for a bucket
	Bucket *Bucket
	Error  string

	Request, IP, Zone string // of the form for a request
	Explained         *shownExplanation
}

// A shownLimit is a limit and how it does.
type shownLimit struct {
	Name, Numbers, By string
	Shadow            bool
	Admitted, Refused string // a second, in the last minute
	Near              string // share of what was admitted, since the start
	Chart             chart
}

// A shownExplanation is which rules meet a request.
type shownExplanation struct {
	Verdict string
	Buckets []Bucket
	Errors  []string
}

// safe are the headers that keep what is shown from being more than text.
func safe(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType+"; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// pageRoutes are those of the page.
func (a *Admin) pageRoutes(mux *http.ServeMux) {
	file := func(contentType, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			safe(w, contentType)
			fmt.Fprint(w, text)
		}
	}
	mux.Handle("GET /page.css", file("text/css", replay.Style+pageStyle))
	mux.Handle("GET /page.js", file("text/javascript", pageScript))
	mux.Handle("GET /{$}", a.reads(a.getPage))
	mux.Handle("POST /page/bucket", a.reads(a.getPage))
	mux.Handle("POST /explain", a.reads(a.postExplain))
	mux.Handle("POST /page/reset", a.reads(a.postPageReset))
}

// getPage shows the page, with a bucket if one is named: in the URL, by its identity, or in a form, whose key may be a
// secret.
func (a *Admin) getPage(w http.ResponseWriter, r *http.Request) {
	s := a.show(r)
	if s.Limit = r.FormValue("limit"); s.Limit != "" {
		a.showBucket(r, s)
	}
	a.render(w, http.StatusOK, s)
}

func (a *Admin) showBucket(r *http.Request, s *pageView) {
	found, err := a.now().Look(r.Context(), s.Limit, r.FormValue("key"))
	if err != nil {
		s.Error = err.Error()
		return
	}
	s.Bucket = &found
}

// postExplain says which rules meet a pasted request, and what their buckets hold.
func (a *Admin) postExplain(w http.ResponseWriter, r *http.Request) {
	s := a.show(r)
	s.Request, s.IP, s.Zone = r.PostFormValue("request"), r.PostFormValue("ip"), r.PostFormValue("zone")
	status := http.StatusOK
	if explained, err := a.explain(r, s); err != nil {
		s.Error, status = err.Error(), http.StatusBadRequest
	} else {
		s.Explained = explained
	}
	a.render(w, status, s)
}

func (a *Admin) explain(r *http.Request, s *pageView) (*shownExplanation, error) {
	q, err := explain.ParsePasted(s.Request, s.IP, s.Zone)
	if err != nil {
		return nil, err
	}
	nowUS, err := q.When()
	if err != nil {
		return nil, err
	}
	var m limits.Match
	b := a.now()
	readable, err := q.Match(b.Set, nowUS, &m)
	if err != nil {
		return nil, err
	}
	if !readable {
		return &shownExplanation{Verdict: explain.NginxRefuses}, nil
	}
	var text strings.Builder
	explain.WriteMatch(&text, &m, nowUS)
	e := &shownExplanation{Verdict: strings.TrimSpace(text.String())}
	for i := range m.Checks {
		c := &m.Checks[i]
		if c.Rate.Count == 0 {
			continue // it refuses, and has no bucket
		}
		found := told(c, nowUS)
		if err := b.peek(r.Context(), c, &found); err != nil {
			e.Errors = append(e.Errors, err.Error())
			continue
		}
		e.Buckets = append(e.Buckets, found)
	}
	return e, nil
}

// postPageReset resets a bucket, and shows it.
func (a *Admin) postPageReset(w http.ResponseWriter, r *http.Request) {
	var reset ResetBucket
	err := a.mayWrite(r)
	if err == nil {
		reset, err = a.reset(r)
	} else {
		a.refuseWrite(r, err)
	}
	if err == nil { // a reload of what follows resets nothing
		http.Redirect(w, r, "/?"+url.Values{"limit": {reset.Limit}, "key": {reset.Key}}.Encode()+"#bucket", http.StatusSeeOther)
		return
	}
	s := a.show(r)
	s.Limit = r.PostFormValue("limit")
	a.showBucket(r, s)
	s.Error = err.Error()
	a.render(w, statusOf(err), s)
}

func (a *Admin) render(w http.ResponseWriter, status int, s *pageView) {
	var text strings.Builder
	if err := page.Execute(&text, s); err != nil {
		panic("BUG: " + err.Error())
	}
	safe(w, "text/html")
	w.WriteHeader(status)
	fmt.Fprint(w, text.String())
}

// show is the page without anything asked for.
func (a *Admin) show(r *http.Request) *pageView {
	now := time.Now()
	s := &pageView{Version: buildinfo.Text(), Now: now.UTC().Format(time.RFC3339), WantsToken: !a.unix}
	s.Store, s.StoreIsWell = a.State(r.Context())
	if a.buckets.Redis != nil {
		if s.Breaker = "closed"; a.buckets.Redis.Unreachable() != nil {
			s.Breaker = "open: Redis is not asked, on_error decides"
		}
	}
	if load := a.LastLoad.Load(); load != nil {
		s.Loaded, s.LoadError = load.At.UTC().Format(time.RFC3339), load.Err
	}
	if !a.unix && a.tokenFile == "" {
		s.ReadOnly = "Nothing can be changed here: authz serve has no --admin-token-file."
	}
	rules := a.Rules.Load()
	for _, l := range rules.Set.Limits() {
		s.Limits = append(s.Limits, a.showLimit(rules, l, now.UnixMicro()))
	}
	s.TopMinute, s.TopHour = a.Refused.Top(time.Minute, monotonic.Now(), 10), a.Refused.Top(time.Hour, monotonic.Now(), 10)
	return s
}

func (a *Admin) showLimit(rules *service.Rules, l *limits.Limit, nowUS int64) shownLimit {
	rate, schedule := l.InForce(nowUS)
	h := a.History.Of(l.Name)
	s := shownLimit{Name: l.Name, Numbers: human.Limit(l.Algorithm.String(), rate.String(), rate.Burst), By: schedule, Shadow: l.Shadow, Admitted: perSecond(service.LastMinute(&h.Admitted)),
		Refused: perSecond(service.LastMinute(&h.Refused)), Chart: newChart(&h)}
	if admitted := service.ValueOf(rules.Of(l).Admitted); admitted > 0 {
		s.Near = fmt.Sprintf("%.0f%%", 100*service.ValueOf(rules.Of(l).Near)/admitted)
	}
	return s
}

// perSecond is a rate for people.
func perSecond(rate float64) string {
	switch {
	case rate == 0:
		return "0"
	case rate < 10:
		return fmt.Sprintf("%.2f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// A chart is admitted and, above that, refused requests over the last ten minutes.
type chart struct {
	Admitted, Refused string // paths
	Most              string // a second
}

const chartWidth, chartHeight = 240, 36

func newChart(h *service.LimitHistory) chart {
	most := 0.0
	for i := range h.Admitted {
		most = max(most, h.Admitted[i]+h.Refused[i])
	}
	c := chart{Most: perSecond(most / service.SampleEvery.Seconds())}
	if most == 0 {
		return c
	}
	path := func(height func(i int) float64) string {
		var b strings.Builder
		fmt.Fprintf(&b, "M0 %d", chartHeight)
		for i := range service.HistorySamples {
			fmt.Fprintf(&b, " V%.1f h%d", chartHeight-height(i)/most*chartHeight, chartWidth/service.HistorySamples)
		}
		fmt.Fprintf(&b, " V%d Z", chartHeight)
		return b.String()
	}
	c.Refused = path(func(i int) float64 { return h.Admitted[i] + h.Refused[i] })
	c.Admitted = path(func(i int) float64 { return h.Admitted[i] })
	return c
}
