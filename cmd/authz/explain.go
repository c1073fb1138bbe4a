package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authz/internal/header"
	"authz/internal/human"
	"authz/limits"
)

type explainCmd struct {
	limitsFlags
	JSON   bool     `name:"json" help:"Read requests and write answers as JSON, one a line."`
	Method string   `help:"Method of the request." default:"GET"`
	Host   string   `help:"Host of the request."`
	URI    string   `name:"uri" help:"Path and query, as the client sent them." default:"/"`
	IP     string   `name:"ip" help:"Address of the client."`
	Zone   string   `help:"Zone, as the nginx location names it."`
	Header []string `short:"H" sep:"none" help:"A header of the request; may be repeated." placeholder:"NAME: VALUE"`
	At     string   `help:"When the request comes, such as 2026-11-27T00:00:00+01:00; now without it." placeholder:"TIME"`
}

// A question is a request that is asked about, as --json reads it. What is not given is empty.
type question struct {
	Method  string              `json:"method"`
	Host    string              `json:"host"`
	URI     string              `json:"uri"`
	IP      string              `json:"ip"`
	Zone    string              `json:"zone"`
	Headers map[string][]string `json:"headers"`
	At      string              `json:"at"` // RFC 3339; empty: now
}

// An explanation says which rules meet a request.
type explanation struct {
	Verdict string          `json:"verdict"`
	Rule    string          `json:"rule"`
	Checks  []explainedRule `json:"checks"`
}

type explainedRule struct {
	Limit     string `json:"limit"`
	Key       string `json:"key"`
	RedisKey  string `json:"redis_key"`
	Algorithm string `json:"algorithm"`
	Count     int64  `json:"limit_count"`
	WindowUS  int64  `json:"window_us"`
	Burst     int64  `json:"burst"`
	OffsetUS  int64  `json:"offset_us"`
	Cost      int64  `json:"cost"`
	Shadow    bool   `json:"shadow"`
	OnError   string `json:"on_error"`
}

func (f *explainCmd) Run(c *console) error {
	set, err := c.loadLimits(f.RedisPrefix, f.Limits)
	if err != nil {
		return err
	}
	if f.JSON {
		return explainLines(set, c)
	}
	q := question{Method: f.Method, Host: f.Host, URI: f.URI, IP: f.IP, Zone: f.Zone, At: f.At, Headers: map[string][]string{}}
	for _, h := range f.Header {
		pair, err := header.Parse(h)
		if err != nil {
			return fmt.Errorf("--header=%s: %w", h, err)
		}
		name := header.Canonical(pair[0])
		q.Headers[name] = append(q.Headers[name], pair[1])
	}
	var m limits.Match
	nowUS, err := q.when()
	if err != nil {
		return err
	}
	readable, err := q.match(set, nowUS, &m)
	switch {
	case err != nil:
		return err
	case !readable:
		fmt.Fprintln(c.out, nginxRefuses)
	default:
		tell(c.out, &m, nowUS)
	}
	return nil
}

const nginxRefuses = "blocked: nginx answers 400 to this uri or host"

// explainLines answers each line of c.in with one of c.out.
func explainLines(set *limits.Set, c *console) error {
	in, out := bufio.NewReader(c.in), bufio.NewWriter(c.out)
	answers := newJSON(out)
	for n := 1; ; n++ {
		line, readErr := in.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			e, err := explainLine(set, line)
			if err != nil {
				return errors.Join(out.Flush(), fmt.Errorf("explain: line %d: %w", n, err))
			}
			if err := answers.Encode(e); err != nil {
				return err
			}
		}
		// Whoever asks line by line waits for the answer before the next question.
		if readErr != nil || in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if readErr == io.EOF {
			return nil
		}
		if readErr != nil {
			return readErr
		}
	}
}

func explainLine(set *limits.Set, line []byte) (*explanation, error) {
	q, err := readQuestion(line)
	if err != nil {
		return nil, err
	}
	return q.explain(set)
}

func readQuestion(text []byte) (q question, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return q, fmt.Errorf("%w, want an object with method, host, uri, ip, zone, headers and at, such as %s", err,
			`{"method":"GET","uri":"/","ip":"203.0.113.9","headers":{"X-API-Key":["k1"]}}`)
	}
	if _, err := d.Token(); err != io.EOF {
		return q, errors.New("text after the object, want one request a line")
	}
	return q, nil
}

// when is the time of the request, in microseconds since 1970.
func (q *question) when() (nowUS int64, err error) {
	if q.At == "" {
		return time.Now().UnixMicro(), nil
	}
	at, err := time.Parse(time.RFC3339, q.At)
	if err != nil {
		return 0, fmt.Errorf("at = %q, want a time such as 2026-11-27T00:00:00+01:00", q.At)
	}
	return at.UnixMicro(), nil
}

// match matches the request as the check endpoint would, at nowUS. It is not readable if nginx answers
// 400 to it.
func (q *question) match(set *limits.Set, nowUS int64, m *limits.Match) (readable bool, err error) {
	var addr netip.Addr
	if q.IP != "" {
		var ok bool
		if addr, ok = limits.ParseAddr([]byte(q.IP)); !ok {
			return false, fmt.Errorf("ip = %q, want an address, such as 203.0.113.9 or 2001:db8::1", q.IP)
		}
	}
	path, query, ok := limits.Target(nil, []byte(q.URI))
	if !ok || !limits.HostIsValid([]byte(q.Host)) {
		return false, nil
	}
	var r request
	r.begin(set)
	places := newReading([]read{{"Cookie", fieldCookie}}, set)
	for _, name := range slices.Sorted(maps.Keys(q.Headers)) {
		for _, value := range q.Headers[name] {
			r.put(places.of([]byte(name)), []byte(value))
		}
	}
	set.Match(&limits.Attrs{Method: []byte(q.Method), Host: []byte(q.Host), Zone: []byte(q.Zone),
		Path: path, Query: query, IP: addr, Headers: r.values[fields:], Cookie: r.values[fieldCookie], NowUS: nowUS}, m)
	return true, nil
}

func (q *question) explain(set *limits.Set) (*explanation, error) {
	e := &explanation{Verdict: limits.Deny.String(), Checks: []explainedRule{}}
	nowUS, err := q.when()
	if err != nil {
		return nil, err
	}
	var m limits.Match
	if readable, err := q.match(set, nowUS, &m); !readable {
		return e, err
	}
	e.Verdict, e.Rule = m.Verdict.String(), m.Rule
	for _, c := range m.Checks {
		e.Checks = append(e.Checks, explainedRule{Limit: c.Limit.Name, Key: string(c.Identity()), RedisKey: string(c.Key),
			Algorithm: c.Limit.Algorithm.String(), Count: c.Rate.Count, WindowUS: c.Rate.WindowUS, Burst: c.Rate.Burst,
			OffsetUS: c.Rate.OffsetUS, Cost: c.Cost, Shadow: c.Limit.Shadow, OnError: c.Limit.OnError.String()})
	}
	return e, nil
}

// tell says it to people, of a request at nowUS.
func tell(w io.Writer, m *limits.Match, nowUS int64) {
	switch {
	case m.Verdict == limits.Allow:
		fmt.Fprintf(w, "admitted by allow rule %s\n", m.Rule)
	case m.Limit != nil:
		fmt.Fprintf(w, "blocked by limit %s: %s\n", m.Rule, absent(m.Limit, m))
	case m.Verdict == limits.Deny:
		fmt.Fprintf(w, "blocked by deny rule %s\n", m.Rule)
	case m.Verdict == limits.None && len(m.Missing) == 0:
		fmt.Fprintln(w, "admitted: no rule meets it")
	default:
		tellLimits(w, m, nowUS)
	}
}

func tellLimits(w io.Writer, m *limits.Match, nowUS int64) {
	if len(m.Checks) == 0 {
		fmt.Fprintln(w, "admitted: no limit counts it")
	}
	for _, l := range m.Unlimited {
		rate, schedule := l.InForce(nowUS)
		fmt.Fprintf(w, "limit.%s: unlimited%s\n", l.Name, whose(schedule, !rate.Unlimited))
	}
	for i := range m.Checks {
		tellCheck(w, m, &m.Checks[i], nowUS)
	}
	for _, l := range m.Missing {
		counted := slices.ContainsFunc(m.Checks, func(c limits.Check) bool { return c.Limit == l })
		if !counted && !slices.Contains(m.Unlimited, l) {
			fmt.Fprintf(w, "limit.%s: skipped, %s\n", l.Name, absent(l, m))
		}
	}
}

func tellCheck(w io.Writer, m *limits.Match, c *limits.Check, nowUS int64) {
	fmt.Fprintf(w, "limit.%s: %s", c.Limit.Name, human.Limit(c.Limit.Algorithm.String(), c.Rate.String(), c.Rate.Burst))
	if c.Rate.Initial > 0 {
		fmt.Fprintf(w, ", initial %d", c.Rate.Initial)
	}
	rate, schedule := c.Limit.InForce(nowUS)
	fmt.Fprintf(w, "%s, cost %d, on_error %s", whose(schedule, c.Rate != rate), c.Cost, c.Limit.OnError)
	if c.Limit.Shadow {
		fmt.Fprint(w, ", shadow")
	}
	key := c.Identity()
	if len(key) == 0 {
		key = []byte(limits.Everybody)
	}
	fmt.Fprintf(w, "\n  key   %s%s\n  redis %s\n", key, instead(c.Limit, m), c.Key)
}

// whose marks numbers that are not those which the limit itself wrote. The KEY of an override may be a
// secret, and is not said.
func whose(schedule string, overridden bool) string {
	switch {
	case overridden:
		return " (by an override)"
	case schedule != "":
		return " (by schedule " + schedule + ")"
	}
	return ""
}

// instead says what stands for the parts of the limit's key that the request lacks, if it lacks any and is
// counted nevertheless.
func instead(l *limits.Limit, m *limits.Match) string {
	switch {
	case !slices.Contains(m.Missing, l):
		return ""
	case l.Missing() == "ip":
		return " (" + absent(l, m) + ": the ip stands for it)"
	}
	return " (" + absent(l, m) + ": shared by all such requests)"
}

// absent says which parts of the limit's key the request lacks.
func absent(l *limits.Limit, m *limits.Match) string {
	names := l.Absent(m)
	if len(names) == 1 {
		return names[0] + " is absent"
	}
	return strings.Join(names, " and ") + " are absent"
}
