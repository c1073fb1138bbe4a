package main

import (
	"bytes"
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

// A logQueue takes the lines of the log and has them written meanwhile: nobody who logs waits for whoever
// reads that. Lines for which there is no room are lost, which the log says once it is read again.
type logQueue struct {
	lines   chan []byte // nil is the end
	written chan struct{}
	lost    atomic.Int64 // lines, since the log has said so
	total   atomic.Int64 // lines
}

const logRoom = 1024 // lines

// queued is the log on a queue of its own.
func (f *logFlags) queued(out io.Writer) (*slog.Logger, *logQueue) {
	q := &logQueue{lines: make(chan []byte, logRoom), written: make(chan struct{})}
	go q.write(out, f.logger(out))
	return f.logger(q), q
}

func (q *logQueue) Write(line []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(line): // which slog uses again
	default:
		q.lose()
	}
	return len(line), nil
}

func (q *logQueue) lose() {
	q.lost.Add(1)
	q.total.Add(1)
}

func (q *logQueue) write(out io.Writer, log *slog.Logger) {
	defer close(q.written)
	for line := range q.lines {
		var err error
		if line != nil {
			if _, err = out.Write(line); err != nil {
				q.lose() // its reader has gone, or the disk is full
			}
		}
		if err == nil && len(q.lines) == 0 && q.lost.Load() > 0 {
			log.Warn("log lines are lost: they came faster than they were read", "lines", q.lost.Swap(0))
		}
		if line == nil {
			return
		}
	}
}

// end waits until all is written, but not for ever. What is logged later is lost.
func (q *logQueue) end() {
	enough := time.After(time.Second)
	select {
	case q.lines <- nil:
		select {
		case <-q.written:
		case <-enough:
		}
	case <-enough:
	}
}

// lostLines is how many lines could not be written.
func (q *logQueue) lostLines() int64 { return q.total.Load() }
