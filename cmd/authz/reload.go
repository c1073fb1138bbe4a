package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"

	"authz/limits"
)

// rules is the limits in force, with what each request would otherwise have to look up.
type rules struct {
	set      *limits.Set
	headers  []string        // the names that limits read, as net/textproto spells them
	counters []limitCounters // by Limit.Index

	deny, allow map[string]prometheus.Counter // by the name of the rule
}

func (m *metrics) newRules(set *limits.Set) *rules {
	r := &rules{set: set, deny: m.ofRules(set.Rules(limits.Deny), blocked), allow: m.ofRules(set.Rules(limits.Allow), admitted)}
	for _, name := range set.HeaderNames() {
		r.headers = append(r.headers, canonical(name))
	}
	for _, l := range set.Limits() {
		r.counters = append(r.counters, m.forLimit(l))
	}
	return r
}

func (r *rules) of(l *limits.Limit) *limitCounters { return &r.counters[l.Index] }

// canonical spells a header name as fasthttp does: a capital first and after each hyphen.
func canonical(name string) string {
	b := []byte(strings.ToLower(name))
	for i, c := range b {
		if 'a' <= c && c <= 'z' && (i == 0 || b[i-1] == '-') {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// A reloader puts new limits in force when their files change.
type reloader struct {
	service *service
	prefix  string   // of Redis keys
	paths   []string // --limits
	files   *fsnotify.Watcher
	log     *slog.Logger
}

// load applies the files whole, or not at all. Buckets are not touched: what was used stays used.
func (r *reloader) load() error {
	set, err := limits.Load(r.prefix, r.paths...)
	if err != nil {
		r.service.metrics.reloaded.Set(0)
		return err
	}
	r.service.rules.Store(r.service.metrics.newRules(set))
	r.service.metrics.loaded(len(set.Limits()), time.Now())
	return nil
}

// reload is load for a service that runs: what is wrong is logged, and the limits stay as they are.
func (r *reloader) reload(why string) {
	before := r.service.rules.Load().set
	if err := r.load(); err != nil {
		r.log.Error("limits not reloaded, the old ones stay", "why", why, "error", err.Error())
		return
	}
	set := r.service.rules.Load().set
	r.log.Info("limits reloaded", "why", why, "limits", len(set.Limits()), "changed", before.Version() != set.Version())
}

// open begins to watch the files. It comes before the first load, so that no change is missed.
func (r *reloader) open() error {
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	r.files = files
	r.watch()
	return nil
}

// start reloads from here on, until ctx ends; end waits for that.
func (r *reloader) start(ctx context.Context) (end func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run(ctx, hangups)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// quiet is how long the files have to be left alone before they are read: an editor or a copy changes
// them more than once. Files that never are left alone are read after a while.
const (
	quiet = 50 * time.Millisecond
	while = time.Second
)

// run reloads on every hangup and after every change, until ctx ends.
func (r *reloader) run(ctx context.Context, hangups <-chan os.Signal) {
	var settled <-chan time.Time
	var latest time.Time
	changed := func() {
		if settled == nil {
			latest = time.Now().Add(while)
		}
		settled = time.After(min(quiet, time.Until(latest)))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			settled = nil
			r.reload("SIGHUP")
		case e := <-r.files.Events:
			if e.Op != fsnotify.Chmod && r.concerns(e.Name) {
				changed()
			}
			continue
		case err := <-r.files.Errors:
			// Events may have been lost: read the files as if each had changed.
			r.log.Warn("watching the limits files", "error", err.Error())
			changed()
			continue
		case <-settled:
			settled = nil
			r.reload("files changed")
		}
		r.watch()
	}
}

// concerns says whether a change of name can be one of the limits: a file that was given or another
// *.toml in a given folder, or a link such as Kubernetes' "..data" that they are reached through.
func (r *reloader) concerns(name string) bool {
	base := filepath.Base(name)
	if strings.HasPrefix(base, "..") || filepath.Ext(base) == ".toml" {
		return true
	}
	for _, p := range r.paths {
		if filepath.Base(p) == base {
			return true
		}
	}
	info, err := os.Lstat(name)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// watch watches the folders of the files, and those that links among them lead to: the files themselves
// are replaced, not written to, by most who change them. It is called after each load, since a link may
// lead elsewhere by then.
func (r *reloader) watch() {
	for _, p := range r.paths {
		folders := []string{filepath.Dir(p)}
		if real, err := filepath.EvalSymlinks(p); err == nil {
			folders = append(folders, filepath.Dir(real))
			if info, err := os.Stat(real); err == nil && info.IsDir() {
				folders = append(folders, real)
			}
		}
		for _, f := range folders {
			if err := r.files.Add(f); err != nil {
				r.log.Warn("cannot watch the limits files, only SIGHUP reloads them", "folder", f, "error", err.Error())
			}
		}
	}
}
