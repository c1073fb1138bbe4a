package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// RedisOptions says where Redis is.
type RedisOptions struct {
	// URL is redis://user:password@host:6379/0, rediss:// with TLS, or unix:///path?db=0. It may
	// set pool_size (connections; 32 at least, 10 a core) and what else go-redis reads in a URL, but
	// none of the timeouts and retries.
	URL string

	// User and Password go before those of the URL, and PasswordFile before both. The file is read
	// for every new connection, so that the password may change.
	User, Password, PasswordFile string

	// Timeout bounds a Take, dialling and waiting for a connection included. It is above 0.
	Timeout time.Duration

	// Turned, if there is one, has a breaker in front of Redis: after three failures in a row that say
	// that it cannot be reached, a Take fails at once, with an error of kind "breaker", until Redis
	// answers a ping. It is told of each change: of which server, and why its breaker opens, or nil when
	// it closes.
	Turned func(server string, err error)
}

// client is the options of go-redis. No error quotes the URL, which may hold a password.
func (o RedisOptions) client() (*redis.Options, error) {
	if o.Timeout <= 0 {
		return nil, fmt.Errorf("the Redis timeout is %v, want a time above 0", o.Timeout)
	}
	if o.namesSeveral() {
		return nil, errors.New("the Redis URL names a cluster or a Sentinel, want a single server: the others are not supported yet")
	}
	c, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, errors.New("the Redis URL cannot be read, want redis://user:password@host:6379/0, rediss://... or unix:///path?db=0")
	}
	if o.User != "" {
		c.Username = o.User
	}
	if o.Password != "" {
		c.Password = o.Password
	}
	if o.PasswordFile != "" {
		c.CredentialsProviderContext = o.readPassword(c.Username)
		if _, _, err := c.CredentialsProviderContext(context.Background()); err != nil {
			return nil, err
		}
	}
	// Nothing is sent twice, and little beside what is asked: one dial and one HELLO, no CLIENT
	// SETINFO, no push messages.
	c.MaxRetries, c.DialerRetries = -1, 1
	c.Protocol, c.DisableIdentity, c.PipelinePoolSize = 2, true, -1
	c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// The context's deadline counts. Half of it may pass in waiting for a connection, so that an
	// exhausted pool is told from a slow Redis, and leaves time for an answer.
	c.ContextTimeoutEnabled = true
	c.PoolTimeout = o.Timeout / 2
	c.DialTimeout = o.Timeout
	c.ReadTimeout = o.Timeout + time.Second // for Load, which may have no deadline
	c.WriteTimeout = c.ReadTimeout
	if c.PoolSize == 0 {
		c.PoolSize = max(32, 10*runtime.GOMAXPROCS(0))
	}
	c.MaxActiveConns = 0
	c.ReadBufferSize, c.WriteBufferSize = 8<<10, 8<<10 // a request is less than 1 KB
	return c, nil
}

// namesSeveral: several addresses, ?cluster=true or ?master=NAME.
func (o RedisOptions) namesSeveral() bool {
	address, query, _ := strings.Cut(o.URL, "?")
	hosts := address[strings.LastIndex(address, "@")+1:]
	values, _ := url.ParseQuery(query)
	return strings.Contains(hosts, ",") && !strings.HasPrefix(address, "unix:") ||
		values.Has("cluster") || values.Has("master")
}

func (o RedisOptions) readPassword(user string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) {
		text, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return "", "", fmt.Errorf("the Redis password: %w", err)
		}
		return user, strings.TrimRight(string(text), "\r\n"), nil
	}
}

// quiet drops what go-redis would print: every error comes back to the caller.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }
