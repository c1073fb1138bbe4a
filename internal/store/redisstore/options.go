package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"authz/internal/store"
	"authz/limits"
)

// Options says where Redis is.
type Options struct {
	// URL is redis://user:password@host:6379/0, rediss:// with TLS, or unix:///path?db=0. Several
	// hosts with commas between them are nodes of a cluster, as is one with ?cluster=true; with
	// ?master=NAME they are Sentinels that watch over a master of this name, with sentinel_username
	// and sentinel_password if they want other ones than Redis. It may set pool_size (connections to
	// each server; 32 at least, 10 a core) and what else go-redis reads in a URL, but none of the
	// timeouts and retries.
	URL string

	// User and Password go before those of the URL, and PasswordFile before both. The file is read
	// for every new connection, so that the password may change. SentinelPasswordFile is the like
	// for Sentinels.
	User, Password, PasswordFile, SentinelPasswordFile string

	// With rediss://, files in PEM: CACert whom to trust instead of the system's list, Cert and Key
	// who we are. They, too, are read for every new connection.
	CACert, Cert, Key string

	// Timeout bounds a Take, dialling and waiting for a connection included. It is above 0.
	Timeout time.Duration

	// Turned, if there is one, has a breaker in front of Redis: after three failures in a row that say
	// that it cannot be reached, a Take fails at once, with an error of kind "breaker", until Redis
	// answers a ping. It is told of each change: of which server, and why its breaker opens, or when it
	// closes nil, or ErrRetired if nobody asks that server any more.
	Turned func(server string, err error)

	// Sent, if there is one, is told of each call how many requests are in it.
	Sent func(requests int)

	// Shadow, if there is one, has shadow limits cost the others nothing: a Take does not wait for a shadow that has no
	// enforcing limit beside it to be asked with, nor fail with one whose key is of another type. Shadow gets the answer.
	Shadow func(c *limits.Check, r store.Result, err error)
}

// A site is where the options lead.
type site struct {
	addrs   []string       // host:port of all that the URL names
	client  *redis.Options // of any of the servers; its Addr is the first of addrs
	cluster bool           // addrs are nodes of a cluster
	master  string         // addrs are Sentinels, and this is the name that they know; else ""

	sentinelUser, sentinelPassword string
}

var errURL = errors.New("the Redis URL cannot be read, want redis://user:password@host:6379/0, rediss://... or unix:///path?db=0")

// site reads the options. No error quotes the URL, which may hold a password.
func (o Options) site() (*site, error) {
	if o.Timeout <= 0 {
		return nil, fmt.Errorf("the Redis timeout is %v, want a time above 0", o.Timeout)
	}
	p := new(site)
	one, err := p.readURL(o.URL)
	if err != nil {
		return nil, err
	}
	if p.client, err = o.clientOf(one); err != nil {
		return nil, err
	}
	switch {
	case p.client.Network == "unix" && (p.cluster || p.master != ""):
		return nil, errors.New("the Redis URL names a unix socket, which is one server: want no cluster and no master")
	case p.cluster && p.client.DB != 0:
		return nil, fmt.Errorf("the Redis URL names database %d, want none: a cluster has but one", p.client.DB)
	case p.master == "" && o.SentinelPasswordFile != "":
		return nil, errors.New("there is a password for Sentinels, but no master in the Redis URL, want ?master=NAME")
	}
	return p, nil
}

// readURL takes from a URL what go-redis does not read in one, and returns the rest, with one host.
func (p *site) readURL(text string) (one string, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	at := strings.LastIndexByte(authority, '@') + 1
	path, query, _ := strings.Cut(tail, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", errURL
	}
	hosts := strings.Split(authority[at:], ",")
	if err := p.readWho(values, len(hosts)); err != nil {
		return "", err
	}
	port := "6379"
	if p.master != "" {
		port = "26379"
	}
	for _, h := range hosts {
		u, err := url.Parse("redis://" + h)
		if err != nil || h == "" && len(hosts) > 1 {
			return "", errURL
		}
		p.addrs = append(p.addrs, net.JoinHostPort(cmp.Or(u.Hostname(), "localhost"), cmp.Or(u.Port(), port)))
	}
	one = scheme + "://" + authority[:at] + hosts[0] + path
	if len(values) > 0 {
		one += "?" + values.Encode()
	}
	return one, nil
}

// readWho takes from the query who the hosts are.
func (p *site) readWho(query url.Values, hosts int) (err error) {
	take := func(name string) string {
		text := query.Get(name)
		query.Del(name)
		return text
	}
	p.cluster = hosts > 1 && !query.Has("master")
	if query.Has("cluster") {
		want, err := strconv.ParseBool(take("cluster"))
		switch {
		case err != nil:
			return errors.New("the Redis URL says neither cluster=true nor cluster=false, want one of them or none")
		case query.Has("master") && want:
			return errors.New("the Redis URL has cluster and master, want one of them")
		case p.cluster && !want:
			return errors.New("the Redis URL names several hosts and cluster=false, want one host, or master=NAME if they are Sentinels")
		}
		p.cluster = want
	}
	if query.Has("master") {
		if p.master = take("master"); p.master == "" {
			return errors.New("the Redis URL has an empty master, want the name that the Sentinels know")
		}
		p.sentinelUser, p.sentinelPassword = take("sentinel_username"), take("sentinel_password")
	}
	return nil
}

// clientOf is the options of go-redis for a URL with one host.
func (o Options) clientOf(one string) (*redis.Options, error) {
	c, err := redis.ParseURL(one)
	if err != nil {
		return nil, o.unreadable(err)
	}
	if o.User != "" {
		c.Username = o.User
	}
	if o.Password != "" {
		c.Password = o.Password
	}
	if o.PasswordFile != "" {
		c.CredentialsProviderContext = readPassword(o.PasswordFile, c.Username)
		if _, _, err := c.CredentialsProviderContext(context.Background()); err != nil {
			return nil, err
		}
	}
	if c.Dialer, err = o.dialer(c); err != nil {
		return nil, err
	}
	// Nothing is sent twice, and little beside what is asked: one dial and one HELLO, no CLIENT
	// SETINFO, no push messages, without which tlsConn.SyscallConn is safe.
	c.MaxRetries, c.DialerRetries = -1, 1
	c.Protocol, c.DisableIdentity, c.PipelinePoolSize = 2, true, -1
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

// unreadable says which parameters go-redis does not know, if none of them can be a part of a password that
// has a "?" in it.
func (o Options) unreadable(err error) error {
	names, ok := strings.CutPrefix(err.Error(), "redis: unexpected option: ")
	if !ok || strings.LastIndexByte(o.URL, '@') > strings.IndexByte(o.URL, '?') {
		return errURL
	}
	return fmt.Errorf("the Redis URL has a parameter that is not known: %q, want cluster=true, master=NAME "+
		"(with which sentinel_username and sentinel_password go) or one of go-redis, such as pool_size=100", names)
}

// at is the options for one of the servers.
func (p *site) at(addr string) *redis.Options {
	c := *p.client
	c.Addr = cmp.Or(addr, c.Addr)
	c.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &c
}

func readPassword(file, user string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) {
		text, err := os.ReadFile(file)
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

// Redacted is a URL of Redis without user, password and options: no text that could be a part of them.
func Redacted(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return "?"
	}
	at := strings.LastIndexByte(rest, '@') + 1
	if strings.Contains(rest[:at], "?") { // a password with one, or an option with an @
		return scheme + "://?"
	}
	place, _, _ := strings.Cut(rest[at:], "?")
	return scheme + "://" + place
}
