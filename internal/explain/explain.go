// Package explain says which rules meet a request, and whose buckets it charges.
package explain

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

	"authz/internal/human"
	"authz/internal/plainjson"
	"authz/limits"
)

// A Question is a request that is asked about, as --json reads it. What is not given is empty.
type Question struct {
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

// Write says it to people.
func (q *Question) Write(w io.Writer, set *limits.Set) error {
	var m limits.Match
	nowUS, err := q.When()
	if err != nil {
		return err
	}
	readable, err := q.Match(set, nowUS, &m)
	switch {
	case err != nil:
		return err
	case !readable:
		fmt.Fprintln(w, NginxRefuses)
	default:
		WriteMatch(w, &m, nowUS)
	}
	return nil
}

const NginxRefuses = "blocked: nginx answers 400 to this uri or host"

// Lines answers each question of a line with a line of JSON.
func Lines(set *limits.Set, questions io.Reader, explanations io.Writer) error {
	in, out := bufio.NewReader(questions), bufio.NewWriter(explanations)
	answers := plainjson.NewEncoder(out)
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

func readQuestion(text []byte) (q Question, err error) {
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

// When is the time of the request, in microseconds since 1970.
func (q *Question) When() (nowUS int64, err error) {
	if q.At == "" {
		return time.Now().UnixMicro(), nil
	}
	at, err := time.Parse(time.RFC3339, q.At)
	if err != nil {
		return 0, fmt.Errorf("at = %q, want a time such as 2026-11-27T00:00:00+01:00", q.At)
	}
	return at.UnixMicro(), nil
}

// Match matches the request as the check endpoint would, at nowUS. It is not readable if nginx answers
// 400 to it.
func (q *Question) Match(set *limits.Set, nowUS int64, m *limits.Match) (readable bool, err error) {
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
	set.Match(&limits.Attrs{Method: []byte(q.Method), Host: []byte(q.Host), Zone: []byte(q.Zone),
		Path: path, Query: query, IP: addr, Headers: q.values(set.HeaderNames()), Cookie: q.value("cookie", "; "), NowUS: nowUS}, m)
	return true, nil
}

// values are those of the headers that limits read.
func (q *Question) values(names []string) (values [][]byte) {
	for _, name := range names {
		values = append(values, q.value(name, ", "))
	}
	return values
}

// value is all that the request says of a header, whose name is in lower case; nil: nothing.
func (q *Question) value(lower, separator string) []byte {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(q.Headers)) {
		if strings.EqualFold(name, lower) {
			all = append(all, q.Headers[name]...)
		}
	}
	if all == nil {
		return nil
	}
	return []byte(strings.Join(all, separator))
}

func (q *Question) explain(set *limits.Set) (*explanation, error) {
	e := &explanation{Verdict: limits.Deny.String(), Checks: []explainedRule{}}
	nowUS, err := q.When()
	if err != nil {
		return nil, err
	}
	var m limits.Match
	if readable, err := q.Match(set, nowUS, &m); !readable {
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

// WriteMatch says which rules meet a request at nowUS.
func WriteMatch(w io.Writer, m *limits.Match, nowUS int64) {
	switch {
	case m.Verdict == limits.Allow:
		fmt.Fprintf(w, "admitted by allow rule %s\n", m.Rule)
	case m.Limit != nil:
		fmt.Fprintf(w, "blocked by limit %s: %s\n", m.Rule, Absent(m.Limit, m))
	case m.Verdict == limits.Deny:
		fmt.Fprintf(w, "blocked by deny rule %s\n", m.Rule)
	case m.Verdict == limits.None && len(m.Missing) == 0:
		fmt.Fprintln(w, "admitted: no rule meets it")
	default:
		writeLimits(w, m, nowUS)
	}
}

func writeLimits(w io.Writer, m *limits.Match, nowUS int64) {
	if len(m.Checks) == 0 {
		fmt.Fprintln(w, "admitted: no limit counts it")
	}
	for _, l := range m.Unlimited {
		rate, schedule := l.InForce(nowUS)
		fmt.Fprintf(w, "limit.%s: unlimited%s\n", l.Name, whose(schedule, !rate.Unlimited))
	}
	for i := range m.Checks {
		writeCheck(w, m, &m.Checks[i], nowUS)
	}
	for _, l := range m.Missing {
		counted := slices.ContainsFunc(m.Checks, func(c limits.Check) bool { return c.Limit == l })
		if !counted && !slices.Contains(m.Unlimited, l) {
			fmt.Fprintf(w, "limit.%s: skipped, %s\n", l.Name, Absent(l, m))
		}
	}
}

func writeCheck(w io.Writer, m *limits.Match, c *limits.Check, nowUS int64) {
	fmt.Fprintf(w, "limit.%s: %s", c.Limit.Name, human.Limit(c.Limit.Algorithm.String(), c.Rate.String(), c.Rate.Burst))
	if c.Rate.Initial > 0 {
		fmt.Fprintf(w, ", initial %d", c.Rate.Initial)
	}
	rate, schedule := c.Limit.InForce(nowUS)
	fmt.Fprintf(w, "%s, cost %d, on_error %s", whose(schedule, c.Rate != rate), c.Cost, c.Limit.OnError)
	if c.Limit.Shadow {
		fmt.Fprint(w, ", shadow")
	}
	fmt.Fprintf(w, "\n  key   %s%s\n  redis %s\n", c.Who(), instead(c.Limit, m), c.Key)
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
		return " (" + Absent(l, m) + ": the ip stands for it)"
	}
	return " (" + Absent(l, m) + ": shared by all such requests)"
}

// Absent says which parts of the limit's key the request lacks.
func Absent(l *limits.Limit, m *limits.Match) string {
	names := l.Absent(m)
	if len(names) == 1 {
		return names[0] + " is absent"
	}
	return strings.Join(names, " and ") + " are absent"
}
