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
type seldom struct{ next atomic.Int64 } // nanoseconds since began

var began = time.Now() // by the clock that nobody sets

func (s *seldom) now() bool {
	now, next := int64(time.Since(began)), s.next.Load()
	return now >= next && s.next.CompareAndSwap(next, now+int64(time.Minute))
}
