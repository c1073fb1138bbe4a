package main

import (
	"authz/nginx/snippet"
)

// snippetCmd writes nginx's configuration.
type snippetCmd struct{ snippet.Options }

func (f *snippetCmd) Run(c *console) error {
	set, err := c.loadLimits("authz", f.Limits)
	if err != nil {
		return err
	}
	text, err := f.Text(set)
	if err == nil {
		_, err = c.out.Write([]byte(text))
	}
	return err
}
