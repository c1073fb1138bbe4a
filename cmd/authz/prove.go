package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"authz/internal/human"
	"authz/internal/plainjson"
	"authz/internal/prove"
	"authz/limits"
)

// proveCmd attacks a limit of a running set-up.
type proveCmd struct{ prove.Options }

// Run attacks, and ends with 1 unless the promise was held.
func (f *proveCmd) Run(c *console) error {
	var set *limits.Set
	if len(f.Limits) > 0 {
		var err error
		if set, err = c.loadLimits("authz", f.Limits); err != nil {
			return err
		}
	}
	p, err := f.Proof(set, time.Now().UnixMicro())
	if err != nil {
		fmt.Fprintf(c.err, "authz: prove: %v; see authz prove --help\n", err)
		return exit(2)
	}
	if err := f.agree(c, p.Left()); err != nil {
		return err
	}
	begun, each := func(string) {}, func(name, said string) {}
	if !f.JSON {
		begun = func(limit string) { fmt.Fprintf(c.out, "limit     %s\n", limit) }
		each = func(name, said string) { fmt.Fprintf(c.out, "%-9s %s\n", name, said) }
	}
	r, err := p.Run(begun, each)
	switch {
	case err != nil:
		return fmt.Errorf("prove: %w", err)
	case f.JSON:
		err = plainjson.NewEncoder(c.out).Encode(r)
	default:
		r.Write(c.out)
	}
	if err == nil && r.Verdict != "held" {
		err = exit(1)
	}
	return err
}

// agree asks whether so many requests may go to another machine.
func (f *proveCmd) agree(c *console, n int) error {
	host, isHere := f.Host()
	if f.Yes || isHere {
		return nil
	}
	question := fmt.Sprintf("Send %s to %s?", human.Count(n, "request"), host)
	if !isTerminal(c.in) {
		return fmt.Errorf("prove: %s Nobody is there to answer, want --yes", question)
	}
	fmt.Fprint(c.err, question+" [y/N] ")
	answer, err := bufio.NewReader(c.in).ReadString('\n')
	if err == io.EOF && answer == "" {
		return fmt.Errorf("prove: %s Nobody is there to answer, want --yes", question)
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("prove: nothing was sent")
	}
	return nil
}
