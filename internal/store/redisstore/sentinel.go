package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// sentinels are the Sentinels that watch over a master. They are asked where it is for each new
// connection: go-redis's own failover client asks one of them as long as that one hangs.
type sentinels struct {
	master  string
	clients []*redis.Client // a Sentinel each
	connect func(ctx context.Context, network, addr string) (net.Conn, error)
	grace   time.Duration // for the others, when one has answered
}

func newSentinels(p *site, o Options) (*sentinels, error) {
	s := &sentinels{master: p.master, connect: p.client.Dialer, grace: grace(o.Timeout)}
	if s.connect == nil {
		s.connect = new(net.Dialer).DialContext
	}
	user, password := p.sentinelUser, p.sentinelPassword
	for _, addr := range p.addrs {
		c := p.at(addr)
		c.DB, c.Username, c.Password, c.CredentialsProviderContext = 0, user, password, nil
		if o.SentinelPasswordFile != "" {
			c.CredentialsProviderContext = readPassword(o.SentinelPasswordFile, user)
			if _, _, err := c.CredentialsProviderContext(context.Background()); err != nil {
				return nil, err
			}
		}
		s.clients = append(s.clients, redis.NewClient(c))
	}
	return s, nil
}

// grace is how long the others are waited for when one of several has answered.
func grace(timeout time.Duration) time.Duration { return min(timeout/8, 250*time.Millisecond) }

func (s *sentinels) close() {
	for _, c := range s.clients {
		c.Close()
	}
}

// dial connects to the master, wherever it is now.
func (s *sentinels) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	addr, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	return s.connect(ctx, "tcp", addr)
}

// A sighting is what a Sentinel says.
type sighting struct {
	addr  string // of the master
	epoch int64  // counts the failovers
	err   error

	unknown bool // it has answered, and knows no master of this name
}

// ErrNoMaster is the answer of Sentinels that all know no master of the name.
var ErrNoMaster = errors.New("the Sentinels know no such master, want the name of their `sentinel monitor` in ?master=NAME")

// find asks all Sentinels at the same time. Who knows of the latest failover is believed: the others
// hear of it within seconds. Those that do not answer are not waited for, once one has.
func (s *sentinels) find(ctx context.Context) (addr string, err error) {
	said := make(chan sighting, len(s.clients))
	for _, c := range s.clients {
		go func() { said <- s.ask(ctx, c) }()
	}
	var enough <-chan time.Time
	epoch, unknown := int64(-1), 0
	for range s.clients {
		select {
		case <-enough:
			return addr, nil
		case one := <-said:
			if one.unknown {
				unknown++
			}
			switch {
			case one.err != nil && err == nil:
				err = one.err
				continue
			case one.err != nil:
				err = fmt.Errorf("%w; %w", err, one.err)
				continue
			case one.epoch > epoch:
				addr, epoch = one.addr, one.epoch
			}
			if enough == nil {
				enough = time.After(s.grace)
			}
		}
	}
	switch {
	case addr == "" && unknown == len(s.clients):
		return "", fmt.Errorf("%w: %w", ErrNoMaster, err)
	case addr == "":
		return "", fmt.Errorf("no Sentinel says where the master is: %w", err)
	}
	return addr, nil
}

func (s *sentinels) ask(ctx context.Context, c *redis.Client) sighting {
	where := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", s.master)
	all := redis.NewMapStringStringCmd(ctx, "sentinel", "master", s.master)
	pipe := c.Pipeline()
	pipe.Process(ctx, where)
	pipe.Process(ctx, all)
	_, failed := pipe.Exec(ctx)
	addr, err := where.Result()
	if err == nil && len(addr) == 0 {
		err = failed // before anything was sent
	}
	switch {
	case err == redis.Nil || err == nil && len(addr) != 2:
		return sighting{unknown: true, err: fmt.Errorf("the Sentinel %s knows no master %q", c.Options().Addr, s.master)}
	case err != nil:
		return sighting{err: fmt.Errorf("the Sentinel %s: %w", c.Options().Addr, err)}
	}
	// An account that may not ask for all there is to know has the epoch 0.
	epoch, _ := strconv.ParseInt(all.Val()["config-epoch"], 10, 64)
	return sighting{addr: net.JoinHostPort(addr[0], addr[1]), epoch: epoch}
}
