package main

import (
	"fmt"

	"authz/limits"
)

type compileCmd struct {
	Paths       []string `arg:"" name:"path" help:"Limits files, or folders of *.toml, that are one set."`
	RedisPrefix string   `help:"What Redis keys begin with." default:"authz"`
}

func (f *compileCmd) Run(c *console) error {
	set, err := limits.Load(f.RedisPrefix, f.Paths...)
	if err != nil {
		fmt.Fprintln(c.err, err)
		return exit(1)
	}
	_, err = c.out.Write(set.JSON())
	return err
}
