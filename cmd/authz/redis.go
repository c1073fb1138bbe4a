package main

import (
	"fmt"
	"time"

	"authz/internal/store/redisstore"
)

// redisFlags is where Redis is.
type redisFlags struct {
	Redis                     string        `help:"redis://, rediss:// or unix:// URL; several hosts are a cluster, or with ?master=NAME Sentinels${without}." placeholder:"URL"`
	RedisUser                 string        `help:"User, instead of the URL's." placeholder:"NAME"`
	RedisPassword             string        `help:"Password, instead of the URL's; better given as $$AUTHZ_REDIS_PASSWORD." placeholder:"TEXT"`
	RedisPasswordFile         string        `help:"File with the password, read for each new connection." placeholder:"FILE" type:"path"`
	RedisSentinelPasswordFile string        `help:"File with the password of the Sentinels, likewise." placeholder:"FILE" type:"path"`
	RedisCacert               string        `help:"File with the CA certificates to trust, instead of the system's; for rediss://, read for each new connection." placeholder:"FILE" type:"path"`
	RedisCert                 string        `help:"File with the certificate to show, likewise." placeholder:"FILE" type:"path"`
	RedisKey                  string        `help:"File with its key, likewise." placeholder:"FILE" type:"path"`
	RedisTimeout              time.Duration `help:"The longest that Redis may take for one request, connecting included; with the hold of a leaky bucket an answer takes 950ms at most." default:"50ms"`
}

func (f *redisFlags) Validate() error {
	switch {
	case f.RedisTimeout <= 0:
		return fmt.Errorf("--redis-timeout=%v: want a time above 0, such as 50ms", f.RedisTimeout)
	case f.RedisPassword != "" && f.RedisPasswordFile != "":
		return fmt.Errorf("--redis-password and --redis-password-file: want one of them")
	}
	return nil
}

// options are the flags, for who opens Redis.
func (f *redisFlags) options() redisstore.Options {
	return redisstore.Options{URL: f.Redis, User: f.RedisUser, Password: f.RedisPassword,
		PasswordFile: f.RedisPasswordFile, SentinelPasswordFile: f.RedisSentinelPasswordFile,
		CACert: f.RedisCacert, Cert: f.RedisCert, Key: f.RedisKey, Timeout: f.RedisTimeout}
}
