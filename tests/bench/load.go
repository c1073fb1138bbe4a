package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A load asks one contestant over a fixed number of connections, from one thread: the requests are
// bytes made beforehand, of which only the client's address changes, and epoll says which answers
// have come. What this thread uses is taken from the same cores as everything else, from every
// contestant alike, and is reported.
type load struct {
	question
	addr  string
	epoll int
	timer int
	conns []*conn
	asked int // in all runs, for the next client
}

// An outcome is what a run has measured.
type outcome struct {
	answers int             // as wanted
	wrong   int             // others, missing ones among them
	elapsed time.Duration   // until the last answer
	latency []time.Duration // of all, sorted; counted from when the request was to be sent
	cpu     time.Duration   // of this thread
}

// dial opens the connections.
func dial(addr string, q question, connections int) (*load, error) {
	l := &load{question: q, addr: addr, epoll: -1, timer: -1}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		l.close()
		return nil, err
	}
	// Edge-triggered: an expiry is told once, and the timer need not be read.
	ring := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: -1}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, l.timer, &ring); err != nil {
		l.close()
		return nil, err
	}
	for i := range connections {
		c := &conn{number: i}
		var at int
		c.request, at = q.bytes()
		c.address = c.request[at : at+len(client)]
		if err := c.open(l.epoll, addr); err != nil {
			l.close()
			return nil, fmt.Errorf("connection %d to %s: %w", i, addr, err)
		}
		l.conns = append(l.conns, c)
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.conns {
		unix.Close(c.fd)
	}
	for _, fd := range []int{l.timer, l.epoll} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// patience is how long after its end a run waits for answers.
const patience = 3 * time.Second

// A run is a load for a while. In a closed loop (perSecond 0) every connection sends its next request
// when it has its answer. In an open one requests are due at fixed times, and one that finds no free
// connection, or a thread that is late, has begun to wait nevertheless.
type run struct {
	*load
	start     time.Time
	length    time.Duration
	least     int // requests that a closed loop sends even when it takes longer
	perSecond float64
	sent      int
	waiting   int // for their answers
	idle      []*conn
	out       outcome
}

// run asks for that long.
func (l *load) run(length time.Duration, perSecond float64, least int) (outcome, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &run{load: l, length: length, perSecond: perSecond, least: least, idle: slices.Clone(l.conns)}
	r.out.latency = make([]time.Duration, 0, 1<<18)
	used := threadCPU()
	r.start = time.Now()
	if err := r.loop(); err != nil {
		return outcome{}, err
	}
	r.out.cpu = threadCPU() - used
	slices.Sort(r.out.latency)
	return r.out, nil
}

func (r *run) loop() error {
	events := make([]unix.EpollEvent, len(r.conns)+1)
	for {
		if err := r.send(); err != nil {
			return err
		}
		now := time.Since(r.start)
		if r.waiting == 0 && r.over(now) {
			return nil
		}
		n, err := unix.EpollWait(r.epoll, events, 100)
		if err != nil && err != unix.EINTR {
			return err
		}
		now = time.Since(r.start)
		for _, e := range events[:max(n, 0)] {
			if e.Fd < 0 {
				continue // the timer
			}
			if err := r.receive(r.conns[e.Fd], now); err != nil {
				return err
			}
		}
		if now > r.length+patience {
			return r.giveUp(now)
		}
	}
}

// due is when the next request is to be sent.
func (r *run) due(now time.Duration) time.Duration {
	if r.perSecond == 0 {
		return now
	}
	return time.Duration(float64(r.sent) * float64(time.Second) / r.perSecond)
}

func (r *run) over(now time.Duration) bool { return r.due(now) >= r.length && r.sent >= r.least }

// send sends what is due, and has the timer ring when the next will be.
func (r *run) send() error {
	for len(r.idle) > 0 {
		now := time.Since(r.start)
		if r.over(now) {
			return nil
		}
		due := r.due(now)
		if wait := due - now; wait > 0 {
			spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(wait))}
			return unix.TimerfdSettime(r.timer, 0, &spec, nil)
		}
		c := r.idle[len(r.idle)-1]
		r.idle = r.idle[:len(r.idle)-1]
		setClient(c.address, r.asked*stride%r.keys)
		r.asked++
		r.sent++
		r.waiting++
		c.due = due
		if _, err := unix.Write(c.fd, c.request); err != nil {
			if err := r.broken(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive reads what has come for a connection.
func (r *run) receive(c *conn, now time.Duration) error {
	n, err := unix.Read(c.fd, c.answer[c.read:])
	switch {
	case err == unix.EAGAIN:
		return nil
	case err != nil || n == 0:
		return r.broken(c)
	}
	c.read += n
	status, length := readAnswer(c.answer[:c.read])
	switch {
	case length == 0 && c.read < len(c.answer):
		return nil
	case length != c.read:
		return r.broken(c)
	}
	c.read = 0
	if status == r.want {
		r.out.answers++
	} else {
		r.out.wrong++
	}
	r.answered(c, now)
	return nil
}

func (r *run) answered(c *conn, now time.Duration) {
	r.out.latency = append(r.out.latency, now-c.due)
	r.out.elapsed = now
	r.waiting--
	r.idle = append(r.idle, c)
}

// broken replaces a connection that was closed, or on which came what is no answer.
func (r *run) broken(c *conn) error {
	unix.Close(c.fd)
	if err := c.open(r.epoll, r.addr); err != nil {
		return fmt.Errorf("a connection to %s broke, and the next: %w", r.addr, err)
	}
	if !slices.Contains(r.idle, c) {
		r.out.wrong++
		r.answered(c, time.Since(r.start))
	}
	return nil
}

// giveUp counts what has not been answered as wrong, and as having taken until now. The connections
// are made anew, so that a late answer is not taken for one of the next run.
func (r *run) giveUp(now time.Duration) error {
	for ; r.perSecond > 0 && !r.over(now); r.sent++ {
		r.out.wrong++
		r.out.latency = append(r.out.latency, now-r.due(now))
	}
	for _, c := range r.conns {
		if !slices.Contains(r.idle, c) {
			if err := r.broken(c); err != nil {
				return err
			}
		}
	}
	return nil
}

func threadCPU() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_THREAD, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
