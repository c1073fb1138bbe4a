package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"authz/internal/monotonic"
	"authz/internal/plainjson"
)

// An admin is what the admin listener shows to operators, and lets them do.
type admin struct {
	*service
	buckets buckets // but for the limits, which are those in force

	guard
}

// newAdmin is an admin of a service. Whoever has the token of tokenFile may change something, or on a unix socket whoever
// may write to it.
func newAdmin(s *service, prefix, tokenFile string, unix bool) *admin {
	return &admin{service: s,
		buckets: buckets{memory: s.stores.memory, redis: s.stores.redis, epoch: epochKey(prefix), log: s.log},
		guard:   guard{tokenFile: tokenFile, unix: unix, denied: s.metrics.adminDenied, log: s.log}}
}

// serve serves it on a listener.
func (a *admin) serve(l net.Listener) *http.Server {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok {
		a.loopback = tcp.IP.IsLoopback()
	}
	server := a.server()
	a.service.log.Info("listening", "for", "admin", "addr", address(l))
	go func() {
		if err := server.Serve(&boundedListener{Listener: l, max: mostAdminConns}); !errors.Is(err, http.ErrServerClosed) {
			a.service.log.Error("the admin listener has ended", "error", err.Error())
		}
	}()
	return server
}

// handler is all of its routes. What changes something, or shows keys, is guarded.
func (a *admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if a.draining.Load() {
			http.Error(w, strings.TrimSpace(drainingText), http.StatusServiceUnavailable)
			return
		}
		// A store that is down is no reason to send nobody here: on_error answers.
		state, _ := a.state(r.Context())
		fmt.Fprintf(w, readyText+"%s\n", state)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /bucket", a.reads(a.getBucket))
	mux.Handle("GET /top", a.reads(a.getTop))
	a.pageRoutes(mux)
	mux.Handle("POST /reset", a.writes(a.postReset))
	return a.ownHost(mux)
}

// What /readyz says, and authz ready expects.
const (
	readyText    = "serving\nstore: "
	drainingText = "draining\n"
)

// server serves them on a listener.
func (a *admin) server() *http.Server {
	return &http.Server{Handler: a.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
}

// now is the buckets by the limits in force.
func (a *admin) now() *buckets {
	b := a.buckets
	b.set = a.rules.Load().set
	return &b
}

// getBucket answers {"limit":...}, or {"error":...} with 400 or 503.
func (a *admin) getBucket(w http.ResponseWriter, r *http.Request) {
	found, err := a.now().look(r.Context(), r.FormValue("limit"), r.FormValue("key"))
	answerJSON(w, found, err)
}

// postReset answers likewise, with "deleted".
func (a *admin) postReset(w http.ResponseWriter, r *http.Request) {
	reset, err := a.reset(r)
	answerJSON(w, reset, err)
}

func (a *admin) reset(r *http.Request) (resetBucket, error) {
	who := "unix"
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		who = host
	}
	if by := r.FormValue("by"); by != "" {
		who = by[:min(len(by), 64)] + " at " + who
	}
	reset, err := a.now().reset(r.Context(), r.FormValue("limit"), r.FormValue("key"), who)
	if a.refusals != nil && !errors.As(err, new(usageError)) {
		a.refusals.Forget(monotonic.Now()) // at once here, and also if Redis is away
	}
	return reset, err
}

func answerJSON(w http.ResponseWriter, answer any, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(statusOf(err))
		answer = adminError{err.Error()}
	}
	plainjson.NewEncoder(w).Encode(answer)
}

// An adminError is how the admin listener says what is wrong.
type adminError struct {
	Error string `json:"error"`
}

func statusOf(err error) int {
	switch {
	case errors.As(err, new(usageError)):
		return http.StatusBadRequest
	case errors.As(err, new(deniedError)):
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
}
