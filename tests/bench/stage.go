package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A stage is where contestants stand: a folder, a Redis, and the processes started since the curtain
// last fell.
type stage struct {
	ctx     context.Context
	options options
	root    string // of the project
	dir     string
	self    string // this program
	authz   string // the service, built from the tree
	redis   *redisServer
	started []*process
}

func newStage(ctx context.Context, o options) (*stage, error) {
	s := &stage{ctx: ctx, options: o}
	err := s.build()
	if err == nil {
		s.redis, err = startRedis(ctx, s.dir)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// build builds the service as a user would.
func (s *stage) build() (err error) {
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	if s.root, err = filepath.Abs("../.."); err != nil {
		return err
	}
	// Short, since the path of a unix socket may have 108 bytes.
	if s.dir, err = os.MkdirTemp("", "authz-bench"); err != nil {
		return err
	}
	if err = os.Chmod(s.dir, 0o755); err != nil { // nginx's workers are another user
		return err
	}
	s.authz = filepath.Join(s.dir, "authz")
	build := exec.CommandContext(s.ctx, "go", "build", "-o", s.authz, "./cmd/authz")
	build.Dir = s.root
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/authz: %w\n%s", err, text)
	}
	return nil
}

// start starts a process that listens at addr, until the curtain falls.
func (s *stage) start(name, addr string, cmd *exec.Cmd) (*process, error) {
	p, err := start(name, cmd)
	if err != nil {
		return nil, err
	}
	s.started = append(s.started, p)
	return p, p.awaitListening(s.ctx, addr)
}

// curtain stops all that a row has started, the last first.
func (s *stage) curtain() {
	for i := len(s.started) - 1; i >= 0; i-- {
		s.started[i].stop()
	}
	s.started = nil
}

func (s *stage) close() {
	s.curtain()
	if s.redis != nil {
		s.redis.stop()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// folder makes a new one.
func (s *stage) folder() (string, error) { return os.MkdirTemp(s.dir, "") }

// write writes a file in a new folder.
func (s *stage) write(name, text string) (string, error) {
	dir, err := s.folder()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// unixAddr is that of a socket in a new folder.
func (s *stage) unixAddr() (string, error) {
	dir, err := s.folder()
	if err != nil {
		return "", err
	}
	return "unix:" + filepath.Join(dir, "s"), os.Chmod(dir, 0o755)
}
