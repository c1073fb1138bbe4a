package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/user"

	"authz/internal/admin"
	"authz/internal/doctor"
	"authz/internal/plainjson"
	"authz/internal/service"
	"authz/internal/store/redisstore"
	"authz/redisscripts"
)

// bucketFlags is which bucket, and where it is: at a running service, or straight in Redis.
type bucketFlags struct {
	Limit string `arg:"" help:"Name of the limit."`
	Key   string `arg:"" help:"Whose bucket: an address or value as requests have it, several parts joined by |, or the key as explain and top say it; \"\" for key = []."`

	admin.Flags
	Limits      []string `help:"Limits file, or folder of *.toml, with --redis; may be repeated." sep:"none" placeholder:"FILE|DIR"`
	RedisPrefix string   `help:"What Redis keys begin with." default:"authz"`
	redisFlags
}

func (f *bucketFlags) Validate() error {
	if (f.Redis == "") != (len(f.Limits) == 0) {
		return errors.New("--redis and --limits: want both, to look into Redis, or neither, to ask a running authz serve")
	}
	return f.redisFlags.Validate()
}

// straight is the buckets in Redis, without a service.
func (f *bucketFlags) straight(c *console) (b *admin.Buckets, end func(), err error) {
	if err := redisscripts.Verify(); err != nil {
		return nil, nil, err
	}
	set, err := c.loadLimits(f.RedisPrefix, f.Limits)
	if err != nil {
		return nil, nil, err
	}
	slow := f.options()
	slow.Timeout = max(doctor.FirstPatience, slow.Timeout)
	redis, err := redisstore.Open(slow)
	if err != nil {
		return nil, nil, err
	}
	return &admin.Buckets{Set: set, Redis: redis, Epoch: service.EpochKey(f.RedisPrefix), Log: new(logFlags).logger(c.err)}, func() { redis.Close() }, nil
}

type getCmd struct {
	bucketFlags
	JSON bool `name:"json" help:"Write it as JSON."`
}

// Help is what --help says beside the flags.
func (*getCmd) Help() string {
	return `Looks without charging anything. A running authz serve is asked, at its admin listener; or Redis itself, with --redis
and --limits, for those who decide inside OpenResty alone.`
}

// Run shows a bucket.
func (f *getCmd) Run(c *console) error {
	found, err := f.get(c)
	if err != nil {
		return c.said("get", err)
	}
	if f.JSON {
		return plainjson.NewEncoder(c.out).Encode(found)
	}
	found.Write(c.out)
	return nil
}

func (f *bucketFlags) get(c *console) (found admin.Bucket, err error) {
	if f.Redis == "" {
		err = f.Ask(http.MethodGet, "/bucket", url.Values{"limit": {f.Limit}, "key": {f.Key}}, &found)
		return found, err
	}
	b, end, err := f.straight(c)
	if err != nil {
		return found, err
	}
	defer end()
	return b.Look(context.Background(), f.Limit, f.Key)
}

type resetCmd struct {
	bucketFlags
	Yes  bool `help:"Delete it; without, say what would be." env:"-"`
	JSON bool `name:"json" help:"Write what was there as JSON."`
}

// Help is what --help says beside the flags.
func (*resetCmd) Help() string {
	return `Shows the bucket, and with --yes deletes it: the key begins as never used, at once, and refusals that instances of authz
and OpenResty remember are forgotten within a second. Exit code 0: there was a bucket; 1: there was none, or it could not be
deleted; 2: usage.`
}

// Run shows a bucket, and resets it with --yes.
func (f *resetCmd) Run(c *console) error {
	if !f.Yes {
		found, err := f.get(c)
		if err != nil {
			return c.said("reset", err)
		}
		if f.JSON {
			err = plainjson.NewEncoder(c.out).Encode(admin.ResetBucket{Bucket: found})
		} else {
			found.Write(c.out)
			fmt.Fprintln(c.out, map[bool]string{true: "nothing was deleted: want --yes", false: "there is nothing to delete"}[found.Exists])
		}
		if err == nil && !found.Exists {
			err = exit(1)
		}
		return err
	}
	reset, err := f.reset(c)
	if err != nil {
		return c.said("reset", err)
	}
	if f.JSON {
		err = plainjson.NewEncoder(c.out).Encode(reset)
	} else {
		reset.Write(c.out)
		fmt.Fprintln(c.out, map[bool]string{true: "deleted", false: "there was none; remembered refusals are forgotten"}[reset.Deleted])
	}
	if err == nil && !reset.Deleted {
		err = exit(1)
	}
	return err
}

func (f *resetCmd) reset(c *console) (reset admin.ResetBucket, err error) {
	if f.Redis == "" {
		err = f.Ask(http.MethodPost, "/reset", url.Values{"limit": {f.Limit}, "key": {f.Key}, "by": {operator()}}, &reset)
		return reset, err
	}
	b, end, err := f.straight(c)
	if err != nil {
		return reset, err
	}
	defer end()
	return b.Reset(context.Background(), f.Limit, f.Key, operator())
}

// operator is who runs this, for the audit line: as far as the machine knows.
func operator() string {
	name := os.Getenv("SUDO_USER")
	if u, err := user.Current(); err == nil && name == "" {
		name = u.Username
	}
	host, _ := os.Hostname()
	return name + "@" + host
}

// said ends a command: by 2 if the caller has said what is not there.
func (c *console) said(command string, err error) error {
	if errors.As(err, new(admin.UsageError)) {
		fmt.Fprintf(c.err, "authz: %s: %v\n", command, err)
		return exit(2)
	}
	var code exit
	if errors.As(err, &code) {
		return code
	}
	return fmt.Errorf("%s: %w", command, err)
}
