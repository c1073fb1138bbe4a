package main

import (
	"fmt"

	"authz/internal/buildinfo"
)

type versionCmd struct{}

func (versionCmd) Run(c *console) error {
	fmt.Fprintln(c.out, buildinfo.Text())
	return nil
}
