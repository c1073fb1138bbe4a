package main

import (
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// logFlags is how the log is written.
type logFlags struct {
	LogFormat string     `help:"Log lines as ${enum}." enum:"text,json" default:"text"`
	LogLevel  slog.Level `help:"The least that is logged: debug, info, warn or error." default:"info"`
}

func (f *logFlags) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// silent takes what fasthttp wants to log: its messages have headers in them.
type silent struct{}

func (silent) Printf(string, ...any) {}

// seldom lets the first of many through, and then one a minute.
type seldom struct{ last atomic.Int64 }

func (s *seldom) now() bool {
	now := time.Now().UnixNano()
	last := s.last.Load()
	return (last == 0 || now-last >= int64(time.Minute)) && s.last.CompareAndSwap(last, now)
}
