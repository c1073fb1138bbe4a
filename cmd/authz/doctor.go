package main

import (
	"errors"
	"fmt"

	"authz/internal/doctor"
	"authz/internal/store/redisstore"
	"authz/limits"
	"authz/redisscripts"
)

type doctorCmd struct {
	Limits      []string `help:"Limits file, or folder of *.toml, whose limits are tried too; may be repeated." sep:"none" placeholder:"FILE|DIR"`
	RedisPrefix string   `help:"What Redis keys begin with." default:"authz"`
	redisFlags
}

func (f *doctorCmd) Validate() error {
	if f.Redis == "" {
		return errors.New("want --redis=URL")
	}
	return f.redisFlags.Validate()
}

func (f *doctorCmd) Run(c *console) error {
	if err := redisscripts.Verify(); err != nil {
		return err
	}
	var set *limits.Set
	if len(f.Limits) > 0 {
		var err error
		if set, err = c.loadLimits(f.RedisPrefix, f.Limits); err != nil {
			return err
		}
	}
	slow := f.options()
	slow.Timeout = max(doctor.Patience, slow.Timeout)
	redis, err := redisstore.Open(slow)
	if err != nil {
		return err
	}
	defer redis.Close()
	o := doctor.Options{Redis: redis, At: f.options(), Prefix: f.RedisPrefix,
		Report: func(word, what, text string) { fmt.Fprintf(c.out, "%-8s %-11s %s\n", word, what, text) }}
	if !doctor.New(o).Visit(set) {
		return exit(1)
	}
	return nil
}
