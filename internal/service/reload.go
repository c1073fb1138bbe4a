package service

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"authz/internal/monotonic"
	"authz/limits"
)

// A reloader puts new limits in force when their files change.
type reloader struct {
	service *Service
	prefix  string   // of Redis keys
	paths   []string // --limits
	files   *fsnotify.Watcher
	names   map[string]bool // that the files are reached by, and their folders
	log     *slog.Logger
}

// lastLoad is when the limits in force were read, and what was wrong with those that were read since.
type lastLoad struct {
	At  time.Time
	Err string
}

// load applies the files whole, or not at all. Buckets are not touched: what was used stays used.
func (r *reloader) load() error {
	defer debug.FreeOSMemory() // what was needed to read them, which may be ten times the set
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	set, err := limits.Load(r.prefix, r.paths...)
	if err != nil {
		r.service.Metrics.reloaded.Set(0)
		if last := r.service.LastLoad.Load(); last != nil {
			r.service.LastLoad.Store(&lastLoad{last.At, err.Error()})
		}
		return err
	}
	if before := r.service.Rules.Load(); before != nil {
		r.service.Metrics.forget(before.Set, set)
	}
	r.service.Rules.Store(newRules(set, r.service.Metrics))
	if refusals := r.service.Refusals; refusals != nil {
		refusals.Forget(monotonic.Now()) // also when the numbers come back that it was made from
	}
	now := time.Now()
	r.service.Metrics.loaded(len(set.Limits()), now)
	r.service.LastLoad.Store(&lastLoad{At: now})
	return nil
}

// reload is load for a service that runs: what is wrong is logged, and the limits stay as they are.
func (r *reloader) reload(why string) {
	before := r.service.Rules.Load().Set
	if err := r.load(); err != nil {
		r.log.Error("limits not reloaded, the old ones stay", "why", why, "error", err.Error())
		return
	}
	set := r.service.Rules.Load().Set
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
	var why string
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
			why = "SIGHUP"
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
			why = "files changed"
		}
		settled = nil
		r.watch()
		r.reload(why)
	}
}

// concerns says whether a change of name can be one of the limits: a name that they are reached by, or
// another *.toml beside one.
func (r *reloader) concerns(name string) bool {
	return r.names[name] || filepath.Ext(name) == ".toml"
}

// watch watches the folders of all names that the limits are reached by: the files themselves are
// replaced, not written to, by most who change them. It comes before each load, so that no change after
// it is missed.
func (r *reloader) watch() {
	r.names = map[string]bool{}
	for _, path := range slices.Concat(r.paths, limits.Files(r.paths...)) {
		for _, name := range trail(path) {
			r.names[name], r.names[filepath.Dir(name)] = true, true
		}
	}
	for _, folder := range r.files.WatchList() {
		if !r.names[folder] {
			r.files.Remove(folder) // fails if it is gone
		}
	}
	for name := range r.names {
		if info, err := os.Lstat(name); err != nil || !info.IsDir() {
			continue
		}
		if err := r.files.Add(name); err != nil {
			r.log.Warn("cannot watch the limits files, only SIGHUP reloads them", "folder", name, "error", err.Error())
		}
	}
}

// trail is the names that decide where path leads: each link on the way, and where it ends, or the first
// name that is not there. No folder of theirs is a link.
func trail(path string) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil // the working directory is gone
	}
	var names []string
	at, rest := "/", strings.Split(path, "/")
	for links := 0; links < 40; { // as Linux follows
		name := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(name)
		switch {
		case err == nil:
			names = append(names, name)
			links++
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
		case len(rest) == 0 || errors.Is(err, fs.ErrNotExist):
			return append(names, name)
		default:
			at = name
		}
	}
	return names
}
