package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

type readyCmd struct{ adminFlags }

// Help is what --help says beside the flags.
func (*readyCmd) Help() string {
	return "For health checks where there is no shell and no curl, such as in a container: what /readyz says."
}

// Run asks /readyz.
func (f *readyCmd) Run(c *console) error {
	response, err := f.send(http.MethodGet, "/readyz", nil)
	if err != nil {
		return fmt.Errorf("ready: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return fmt.Errorf("ready: %w", err)
	}
	serving := response.StatusCode == http.StatusOK && strings.HasPrefix(string(text), readyText)
	if !serving && string(text) != drainingText {
		return fmt.Errorf("ready: --admin=%s: %s, which is no answer of authz; want the admin listener of authz serve", f.Admin, response.Status)
	}
	fmt.Fprint(c.out, string(text))
	if !serving {
		return exit(1)
	}
	return nil
}
