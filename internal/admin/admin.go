// Package admin is what operators see and do: the page, metrics, readiness, buckets and top, and the client of all that.
package admin

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
	"authz/internal/service"
)

// An Admin is what the admin listener shows to operators, and lets them do.
type Admin struct {
	*service.Service
	buckets Buckets // but for the limits, which are those in force

	guard
}

// New is an admin of a service. Whoever has the token of tokenFile may change something, or on a unix socket whoever
// may write to it.
func New(s *service.Service, prefix, tokenFile string, unix bool) *Admin {
	return &Admin{Service: s,
		buckets: Buckets{memory: s.Stores.Memory, Redis: s.Stores.Redis, Epoch: service.EpochKey(prefix), Log: s.Log},
		guard:   guard{tokenFile: tokenFile, unix: unix, denied: s.Metrics.AdminDenied, log: s.Log}}
}

// Serve serves it on a listener.
func (a *Admin) Serve(l net.Listener) *http.Server {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok {
		a.loopback = tcp.IP.IsLoopback()
	}
	server := a.Server()
	a.Service.Log.Info("listening", "for", "admin", "addr", service.Address(l))
	go func() {
		if err := server.Serve(&boundedListener{Listener: l, max: mostAdminConns}); !errors.Is(err, http.ErrServerClosed) {
			a.Service.Log.Error("the admin listener has ended", "error", err.Error())
		}
	}()
	return server
}

// handler is all of its routes. What changes something, or shows keys, is guarded.
func (a *Admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if a.Draining.Load() {
			http.Error(w, strings.TrimSpace(DrainingText), http.StatusServiceUnavailable)
			return
		}
		// A store that is down is no reason to send nobody here: on_error answers.
		state, _ := a.State(r.Context())
		fmt.Fprintf(w, ReadyText+"%s\n", state)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.Metrics.Registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /bucket", a.reads(a.getBucket))
	mux.Handle("GET /top", a.reads(a.getTop))
	a.pageRoutes(mux)
	mux.Handle("POST /reset", a.writes(a.postReset))
	return a.ownHost(mux)
}

// What /readyz says, and authz ready expects.
const (
	ReadyText    = "serving\nstore: "
	DrainingText = "draining\n"
)

// Server serves them on a listener.
func (a *Admin) Server() *http.Server {
	return &http.Server{Handler: a.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
}

// now is the buckets by the limits in force.
func (a *Admin) now() *Buckets {
	b := a.buckets
	b.Set = a.Rules.Load().Set
	return &b
}

// getBucket answers {"limit":...}, or {"error":...} with 400 or 503.
func (a *Admin) getBucket(w http.ResponseWriter, r *http.Request) {
	found, err := a.now().Look(r.Context(), r.FormValue("limit"), r.FormValue("key"))
	answerJSON(w, found, err)
}

// postReset answers likewise, with "deleted".
func (a *Admin) postReset(w http.ResponseWriter, r *http.Request) {
	reset, err := a.reset(r)
	answerJSON(w, reset, err)
}

func (a *Admin) reset(r *http.Request) (ResetBucket, error) {
	who := "unix"
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		who = host
	}
	if by := r.FormValue("by"); by != "" {
		who = by[:min(len(by), 64)] + " at " + who
	}
	reset, err := a.now().Reset(r.Context(), r.FormValue("limit"), r.FormValue("key"), who)
	if a.Refusals != nil && !errors.As(err, new(UsageError)) {
		a.Refusals.Forget(monotonic.Now()) // at once here, and also if Redis is away
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
	case errors.As(err, new(UsageError)):
		return http.StatusBadRequest
	case errors.As(err, new(deniedError)):
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
}
