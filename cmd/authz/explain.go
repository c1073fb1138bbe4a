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
}

// A question is a request that is asked about, as --json reads it. What is not given is empty.
type question struct {
	Method  string              `json:"method"`
	Host    string              `json:"host"`
	URI     string              `json:"uri"`
	IP      string              `json:"ip"`
	Zone    string              `json:"zone"`
	Headers map[string][]string `json:"headers"`
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
	set, err := limits.Load(f.RedisPrefix, f.Limits...)
	if err != nil {
		fmt.Fprintln(c.err, err)
		return exit(1)
	}
	if f.JSON {
		return explainLines(set, c)
	}
	q := question{Method: f.Method, Host: f.Host, URI: f.URI, IP: f.IP, Zone: f.Zone, Headers: map[string][]string{}}
	for _, h := range f.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return fmt.Errorf("--header=%s: want NAME: VALUE", h)
		}
		q.Headers[name] = append(q.Headers[name], strings.Trim(value, " \t"))
	}
	e, err := q.explain(set)
	if err != nil {
		return err
	}
	e.print(c.out)
	return nil
}

// explainLines answers each line of c.in with one of c.out.
func explainLines(set *limits.Set, c *console) error {
	in, out := bufio.NewReader(c.in), bufio.NewWriter(c.out)
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false)
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
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	var q question
	if err := d.Decode(&q); err != nil {
		return nil, fmt.Errorf("%w, want an object with method, host, uri, ip, zone and headers, such as %s", err,
			`{"method":"GET","uri":"/","ip":"203.0.113.9","headers":{"X-API-Key":["k1"]}}`)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text after the object, want one request a line")
	}
	return q.explain(set)
}

// explain matches the request as the check endpoint would.
func (q *question) explain(set *limits.Set) (*explanation, error) {
	var addr netip.Addr
	if q.IP != "" {
		var ok bool
		if addr, ok = limits.ParseAddr([]byte(q.IP)); !ok {
			return nil, fmt.Errorf("ip = %q, want an address, such as 203.0.113.9 or 2001:db8::1", q.IP)
		}
	}
	e := &explanation{Verdict: limits.Deny.String(), Checks: []explainedRule{}}
	path, query, ok := limits.Target(nil, []byte(q.URI))
	if !ok {
		return e, nil
	}
	names := set.HeaderNames()
	attrs := limits.Attrs{Method: []byte(q.Method), Host: []byte(q.Host), Zone: []byte(q.Zone),
		Path: path, Query: query, IP: addr, Headers: make([][]byte, len(names))}
	var cookies []string
	for _, name := range slices.Sorted(maps.Keys(q.Headers)) {
		if strings.EqualFold(name, "cookie") {
			cookies = append(cookies, q.Headers[name]...)
		}
		if i := slices.Index(names, strings.ToLower(name)); i >= 0 {
			attrs.Headers[i] = []byte(strings.Join(q.Headers[name], ", "))
		}
	}
	attrs.Cookie = []byte(strings.Join(cookies, "; "))

	var m limits.Match
	set.Match(&attrs, &m)
	e.Verdict, e.Rule = m.Verdict.String(), m.Rule
	for _, c := range m.Checks {
		e.Checks = append(e.Checks, explainedRule{Limit: c.Limit.Name, Key: string(c.Identity()), RedisKey: string(c.Key),
			Algorithm: c.Limit.Algorithm.String(), Count: c.Rate.Count, WindowUS: c.Rate.WindowUS, Burst: c.Rate.Burst,
			OffsetUS: c.Rate.OffsetUS, Cost: c.Cost, Shadow: c.Limit.Shadow, OnError: c.Limit.OnError.String()})
	}
	return e, nil
}

// print writes it for people.
func (e *explanation) print(w io.Writer) {
	switch {
	case e.Verdict == limits.None.String():
		fmt.Fprintln(w, "admitted: no rule meets it")
	case e.Verdict == limits.Allow.String():
		fmt.Fprintf(w, "admitted by %s\n", e.Rule)
	case e.Verdict == limits.Deny.String() && e.Rule == "":
		fmt.Fprintln(w, "blocked: nginx answers 400 to this uri")
	case e.Verdict == limits.Deny.String():
		fmt.Fprintf(w, "blocked by %s\n", e.Rule)
	case len(e.Checks) == 0:
		fmt.Fprintln(w, "admitted: its limits are unlimited")
	}
	for _, c := range e.Checks {
		fmt.Fprintf(w, "limit.%s: %s, %d in %v", c.Limit, c.Algorithm, c.Count, time.Duration(c.WindowUS)*time.Microsecond)
		if c.Burst > 0 {
			fmt.Fprintf(w, ", burst %d", c.Burst)
		}
		fmt.Fprintf(w, ", cost %d, on_error %s", c.Cost, c.OnError)
		if c.Shadow {
			fmt.Fprint(w, ", shadow")
		}
		fmt.Fprintf(w, "\n  key   %s\n  redis %s\n", c.Key, c.RedisKey)
	}
}
