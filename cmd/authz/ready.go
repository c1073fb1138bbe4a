package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"authz/internal/admin"
)

type readyCmd struct{ admin.Flags }

// Help is what --help says beside the flags.
func (*readyCmd) Help() string {
	return "For health checks where there is no shell and no curl, such as in a container: what /readyz says."
}

// Run asks /readyz.
func (f *readyCmd) Run(c *console) error {
	response, err := f.Send(http.MethodGet, "/readyz", nil)
	if err != nil {
		return fmt.Errorf("ready: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return fmt.Errorf("ready: %w", err)
	}
	serving := response.StatusCode == http.StatusOK && strings.HasPrefix(string(text), admin.ReadyText)
	if !serving && string(text) != admin.DrainingText {
		return fmt.Errorf("ready: --admin=%s: %s, which is no answer of authz; want the admin listener of authz serve", f.Admin, response.Status)
	}
	fmt.Fprint(c.out, string(text))
	if !serving {
		return exit(1)
	}
	return nil
}
