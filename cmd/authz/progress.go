package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// A progress shows on a terminal how much of some files has been read.
type progress struct {
	out   io.Writer // nil: no terminal
	read  atomic.Int64
	total int64 // -1: nobody knows
}

const longFiles = 32 << 20 // bytes; shorter ones are read before anybody wonders

func newProgress(out io.Writer) *progress {
	if isTerminal(out) {
		return &progress{out: out}
	}
	return new(progress)
}

// isTerminal says whether somebody may sit at a stream.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// of counts what is read of a file of this size; 0 is that of a pipe, of which nobody knows.
func (p *progress) of(r io.Reader, size int64) io.Reader {
	if size == 0 || p.total < 0 {
		p.total = -1
	} else {
		p.total += size
	}
	return &progressReader{r, p}
}

type progressReader struct {
	io.Reader
	progress *progress
}

func (c *progressReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.progress.read.Add(int64(n))
	return n, err
}

// show draws the bar until the func that it returns is called, which wipes it.
func (p *progress) show() (end func()) {
	if p.out == nil || p.total >= 0 && p.total < longFiles {
		return func() {}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		every := time.NewTicker(200 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				fmt.Fprint(p.out, "\r", p.bar())
			case <-ended:
				fmt.Fprint(p.out, "\r", strings.Repeat(" ", len(p.bar())), "\r")
				return
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

// bar is "[##########          ]  50%  120 of 240 MB".
func (p *progress) bar() string {
	const width = 30
	read, mb := p.read.Load(), int64(1e6)
	if p.total < 0 {
		return fmt.Sprintf("%d MB read", read/mb)
	}
	filled := int(min(width, width*read/p.total))
	return fmt.Sprintf("[%s%s] %3d%%  %d of %d MB", strings.Repeat("#", filled), strings.Repeat(" ", width-filled),
		min(100, 100*read/p.total), read/mb, p.total/mb)
}
