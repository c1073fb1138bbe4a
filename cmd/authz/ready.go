package main

import (
	"fmt"
	"io"
	"net/http"
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
	fmt.Fprint(c.out, string(text))
	if response.StatusCode != http.StatusOK {
		return exit(1)
	}
	return nil
}
