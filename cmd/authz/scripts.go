package main

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"authz/internal/store/redisstore"
	"authz/redisscripts"
)

type scriptsCmd struct {
	List scriptsListCmd `cmd:"" help:"Name, version and SHA-1 of each script."`
	Load scriptsLoadCmd `cmd:"" set:"without=" help:"Load the scripts into Redis."`
}

type scriptsListCmd struct{}

func (scriptsListCmd) Run(c *console) error {
	if err := redisscripts.Verify(); err != nil {
		return err
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, s := range redisscripts.All() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, s.Version, s.SHA)
	}
	return table.Flush()
}

type scriptsLoadCmd struct{ redisFlags }

func (f *scriptsLoadCmd) Run(c *console) error {
	if f.Redis == "" {
		return errors.New("scripts load: want --redis URL")
	}
	if err := redisscripts.Verify(); err != nil {
		return err
	}
	redis, err := redisstore.Open(f.options())
	if err != nil {
		return err
	}
	defer redis.Close()
	if err := redisstore.LoadScripts(redis); err != nil {
		return err
	}
	return scriptsListCmd{}.Run(c)
}
