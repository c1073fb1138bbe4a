package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"

	"authz/internal/admin"
	"authz/internal/plainjson"
	"authz/internal/toptalkers"
)

type topCmd struct {
	admin.Flags
	Span string `help:"How far to look back: ${enum}." enum:"1m,1h" default:"1m"`
	N    int    `short:"n" help:"How many keys." default:"10" placeholder:"N"`
	JSON bool   `name:"json" help:"Write them as JSON."`
}

// Help is what --help says beside the flags.
func (*topCmd) Help() string {
	return `The keys that a running authz serve has refused most in the last minute or hour, of all limits that enforce. Each instance
knows its own. Numbers are what is sure; where there were too many keys to count each, they may be larger.`
}

func (f *topCmd) Validate() error {
	if f.N < 1 || f.N > toptalkers.Most {
		return fmt.Errorf("--n=%d: want 1 to %d", f.N, toptalkers.Most)
	}
	return nil
}

// Run shows who is refused.
func (f *topCmd) Run(c *console) error {
	var keys []toptalkers.Key
	if err := f.Ask(http.MethodGet, "/top", url.Values{"span": {f.Span}, "n": {strconv.Itoa(f.N)}}, &keys); err != nil {
		return c.said("top", err)
	}
	if f.JSON {
		return plainjson.NewEncoder(c.out).Encode(keys)
	}
	if len(keys) == 0 {
		fmt.Fprintf(c.out, "nobody was refused in the last %s\n", f.Span)
		return nil
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "refused\tlimit\tkey")
	for _, k := range keys {
		fmt.Fprintf(table, "%d\t%s\t%s\n", k.Refused, k.Limit, k.Key)
	}
	return table.Flush()
}
