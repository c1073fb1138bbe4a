package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"authz/internal/admin"
	"authz/internal/service"
	"authz/redisscripts"
)

// limitsFlags is where the limits are.
type limitsFlags struct {
	Limits      []string `help:"Limits file, or folder of *.toml; may be repeated." required:"" sep:"none" placeholder:"FILE|DIR"`
	RedisPrefix string   `help:"What Redis keys begin with." default:"authz"`
}

type serveCmd struct {
	limitsFlags
	Listen         []string      `help:"host:port or unix:/path to answer checks on; may be repeated." default:"127.0.0.1:7429"`
	SocketMode     fileMode      `help:"Mode of unix sockets." default:"0660"`
	Admin          string        `help:"host:port or unix:/path for operators: the page, /metrics, /healthz and /readyz; empty for none." default:"127.0.0.1:7430"`
	AdminMode      fileMode      `name:"admin-socket-mode" help:"Mode of --admin, if that is a unix socket: whoever may write to it may reset buckets." default:"0600"`
	AdminTokenFile string        `help:"File with a token, without which nothing can be changed on --admin, unless that is a unix socket." placeholder:"FILE" type:"path"`
	TrustedProxies []string      `help:"Addresses and prefixes of proxies that are believed; \"unix\" for unix sockets." default:"127.0.0.0/8,::1,unix"`
	Headers        string        `help:"Rate-limit headers: ietf, legacy (X-RateLimit-*) or both." enum:"ietf,legacy,both" default:"ietf"`
	RetryAfterMax  time.Duration `help:"The longest Retry-After, in whole seconds; 0 for no bound." default:"0s"`
	HeldMax        int64         `help:"The most answers that leaky buckets hold at once; more requests are refused." default:"10000"`
	RefusalsMax    int           `help:"The most refusals by Redis that are remembered, and given again until their wait is over; 0 to ask Redis every time." default:"100000"`
	MemoryBuckets  int           `help:"The most buckets that the in-memory store keeps." default:"1000000"`
	LogRefusals    bool          `help:"Log the first refusal of a key in a window, and how many follow." default:"true" negatable:""`
	redisFlags
	logFlags

	peers service.Peers // as TrustedProxies says
}

// fileMode is permissions, written in octal.
type fileMode fs.FileMode

func (m *fileMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf("%q, want an octal mode, such as 0660", text)
	}
	*m = fileMode(n)
	return nil
}

// Validate also reads --trusted-proxies.
func (f *serveCmd) Validate() (err error) {
	switch {
	case f.RetryAfterMax < 0 || f.RetryAfterMax%time.Second != 0:
		return fmt.Errorf("--retry-after-max=%v: want whole seconds, such as 60s, or 0", f.RetryAfterMax)
	case f.HeldMax < 1:
		return fmt.Errorf("--held-max=%d: want 1 or more", f.HeldMax)
	case f.RefusalsMax < 0:
		return fmt.Errorf("--refusals-max=%d: want 0 or more", f.RefusalsMax)
	case f.MemoryBuckets < 1:
		return fmt.Errorf("--memory-buckets=%d: want 1 or more", f.MemoryBuckets)
	}
	if f.peers, err = service.NewPeers(f.TrustedProxies); err != nil {
		return fmt.Errorf("--trusted-proxies: %w", err)
	}
	return f.redisFlags.Validate()
}

// Run serves until SIGTERM or SIGINT. Whoever reads the log as JSON finds there too why it did not.
func (f *serveCmd) Run(c *console) error {
	signal.Ignore(syscall.SIGPIPE) // else a log whose reader has gone would end the process
	log, queue := f.queued(c.err)
	defer queue.end()
	err := f.serve(log, queue)
	if err != nil && f.LogFormat == "json" {
		log.Error("cannot serve", "error", err.Error())
		return exit(1)
	}
	return err
}

func (f *serveCmd) serve(log *slog.Logger, queue *logQueue) error {
	if err := redisscripts.Verify(); err != nil {
		return err
	}
	s, err := service.New(service.Options{
		Log: log, LostLines: queue.lostLines,
		Limits: f.Limits, Prefix: f.RedisPrefix,
		Peers: f.peers, IETF: f.Headers != "legacy", Legacy: f.Headers != "ietf", RetryAfterMax: f.RetryAfterMax,
		HeldMax: f.HeldMax, RefusalsMax: f.RefusalsMax, MemoryBuckets: f.MemoryBuckets, LogRefusals: f.LogRefusals,
		Redis: f.options(),
	})
	if err != nil {
		return err
	}
	defer s.Close()
	listeners, err := f.listen(log)
	for _, l := range listeners {
		defer l.Close()
	}
	if err != nil {
		return err
	}
	admin, err := f.serveAdmin(s)
	if err != nil {
		return err
	}
	defer admin.Close()
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	return s.Run(stop, cancel, listeners) // a second signal ends the process at once
}

// listen opens all of --listen. Those that are open are returned with the error of one that is not.
func (f *serveCmd) listen(log *slog.Logger) (listeners []net.Listener, err error) {
	for _, addr := range f.Listen {
		l, err := service.Listen(addr, fs.FileMode(f.SocketMode), log)
		if err != nil {
			return listeners, fmt.Errorf("--listen=%s: %w", addr, err)
		}
		log.Info("listening", "for", "checks", "addr", service.Address(l))
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// serveAdmin listens for operators, unless --admin is empty.
func (f *serveCmd) serveAdmin(s *service.Service) (*http.Server, error) {
	a := admin.New(s, f.RedisPrefix, f.AdminTokenFile, strings.HasPrefix(f.Admin, "unix:"))
	if f.Admin == "" {
		return a.Server(), nil
	}
	if f.AdminTokenFile != "" {
		if _, err := admin.ReadToken(f.AdminTokenFile); err != nil {
			return nil, fmt.Errorf("--admin-token-file=%w", err)
		}
	}
	l, err := service.OpenListener(f.Admin, fs.FileMode(f.AdminMode))
	if err != nil {
		return nil, fmt.Errorf("--admin=%s: %w", f.Admin, err)
	}
	return a.Serve(l), nil
}
