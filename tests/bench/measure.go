package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"
)

// A sample is what one run of one contestant has shown.
type sample struct {
	perSecond  float64            // answers as wanted
	cpu        map[string]float64 // µs a request, by the name of the process; the load's own as "load"
	redisCalls float64            // calls of scripts, a request
	redisUS    float64            // that Redis spent in them, a request
	p50, p99   float64            // µs
	wrong      float64            // share of the answers that were not as wanted
}

// server is the CPU of everything but the load, µs a request.
func (s sample) server() float64 {
	sum := 0.0
	for name, us := range s.cpu {
		if name != "load" {
			sum += us
		}
	}
	return sum
}

// A counters is what is read before and after a run.
type counters struct {
	cpu      map[string]time.Duration
	commands commands
	decided  float64
	degraded float64
}

func (s *stage) read(c *contestant) (n counters, err error) {
	n.cpu = map[string]time.Duration{}
	processes := c.processes
	if c.redis {
		processes = append(slices.Clone(processes), s.redis.process)
		if n.commands, err = s.redis.commands(s.ctx); err != nil {
			return n, err
		}
	}
	if c.admin != "" {
		if n.decided, n.degraded, err = c.decided(); err != nil {
			return n, err
		}
	}
	for _, p := range processes {
		used, err := p.cpu()
		if err != nil {
			return n, err
		}
		n.cpu[p.name] += used
	}
	return n, nil
}

// warmth is how long a contestant is asked before it is measured.
func (o options) warmth() time.Duration { return min(o.length/4, 500*time.Millisecond) }

// measure asks a contestant, with a Redis that is empty at first. perSecond 0 is a closed loop.
func (s *stage) measure(c *contestant, connections int, perSecond float64) (sample, error) {
	if err := s.ctx.Err(); err != nil {
		return sample{}, err
	}
	if err := s.redis.client.FlushAll(s.ctx).Err(); err != nil {
		return sample{}, err
	}
	l, err := dial(c.addr, c.question, connections)
	if err != nil {
		return sample{}, err
	}
	defer l.close()
	if _, err := l.run(s.options.warmth(), perSecond, c.least); err != nil {
		return sample{}, err
	}
	before, err := s.read(c)
	if err != nil {
		return sample{}, err
	}
	out, err := l.run(s.options.length, perSecond, 0)
	if err != nil {
		return sample{}, err
	}
	after, err := s.read(c)
	if err != nil {
		return sample{}, err
	}
	return c.sample(before, after, out)
}

func (c *contestant) sample(before, after counters, out outcome) (sample, error) {
	all := float64(out.answers + out.wrong)
	if out.answers == 0 {
		return sample{}, fmt.Errorf("%.0f answers, none has status %d", all, c.want)
	}
	degraded := min(after.degraded-before.degraded, float64(out.answers))
	if decided := after.decided - before.decided; c.admin != "" && decided < float64(out.answers) {
		return sample{}, fmt.Errorf("limit api has decided %.0f of %d requests", decided, out.answers)
	}
	calls, us := after.commands.scripts()
	callsBefore, usBefore := before.commands.scripts()
	s := sample{
		perSecond:  (float64(out.answers) - degraded) / out.elapsed.Seconds(),
		cpu:        map[string]float64{"load": us64(out.cpu) / all},
		redisCalls: (calls - callsBefore) / all,
		redisUS:    (us - usBefore) / all,
		p50:        us64(percentile(out.latency, 50)),
		p99:        us64(percentile(out.latency, 99)),
		wrong:      (float64(out.wrong) + degraded) / all,
	}
	for name, used := range after.cpu {
		s.cpu[name] = us64(used-before.cpu[name]) / all
	}
	return s, nil
}

func us64(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// percentile is the smallest value that p percent of them do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

// rehearse asks a contestant once: whether it answers as it should is known before anything is measured.
func (c *contestant) rehearse(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	network, address := splitAddr(c.addr)
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	text, _ := c.bytes()
	if _, err := conn.Write(text); err != nil {
		return err
	}
	var answer []byte
	for {
		part := make([]byte, 4096)
		n, err := conn.Read(part)
		answer = append(answer, part[:n]...)
		status, length := readAnswer(answer)
		switch {
		case length < 0 || length == 0 && err != nil:
			return fmt.Errorf("answers %q", answer)
		case length == 0:
			continue
		case status != c.want && c.least == 0: // who refuses must have admitted something first
			return fmt.Errorf("answers %q, want status %d", answer, c.want)
		}
		return nil
	}
}
