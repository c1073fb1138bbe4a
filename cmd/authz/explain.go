package main

import (
	"fmt"

	"authz/internal/explain"
	"authz/internal/header"
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

func (f *explainCmd) Run(c *console) error {
	set, err := c.loadLimits(f.RedisPrefix, f.Limits)
	if err != nil {
		return err
	}
	if f.JSON {
		return explain.Lines(set, c.in, c.out)
	}
	q := explain.Question{Method: f.Method, Host: f.Host, URI: f.URI, IP: f.IP, Zone: f.Zone, At: f.At, Headers: map[string][]string{}}
	for _, h := range f.Header {
		pair, err := header.Parse(h)
		if err != nil {
			return fmt.Errorf("--header=%s: %w", h, err)
		}
		name := header.Canonical(pair[0])
		q.Headers[name] = append(q.Headers[name], pair[1])
	}
	return q.Write(c.out, set)
}
