package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/valyala/fasthttp"
)

// A rate is the limit that every contestant enforces for each client.
type rate struct {
	count  int
	period time.Duration
}

// A limiter decides for one client, in the way of one library.
type limiter func(ctx context.Context, key string) (admitted bool, remaining, resetSeconds int, err error)

// limiters are the ways that share the handler.
var limiters = map[string]func(*redis.Client, rate) (limiter, error){
	"plain":      plain,
	"single":     single,
	"redis_rate": redisRate,
	"throttled":  throttledLimiter,
	"ulule":      ululeLimiter,
}

// serveHandler is a process of its own: the bare fasthttp handler, which is the floor, or the same with
// a limiter in it. The answers are those of the service, byte for byte where nothing is counted.
func serveHandler(args []string) error {
	flags := flag.NewFlagSet("handler", flag.ExitOnError)
	kind := flags.String("kind", "floor", "floor, or a limiter")
	listen := flags.String("listen", "", "host:port or unix:/path")
	redisAddr := flags.String("redis", "", "host:port")
	count := flags.Int("count", 0, "the limit: so many")
	period := flags.Duration("period", 0, "in so long")
	flags.Parse(args)

	handle := floor
	if *kind != "floor" {
		newLimiter, ok := limiters[*kind]
		if !ok {
			return fmt.Errorf("-kind %s: want floor or a limiter", *kind)
		}
		// As go-redis comes: a pool of ten connections a core.
		limit, err := newLimiter(redis.NewClient(&redis.Options{Addr: *redisAddr}), rate{*count, *period})
		if err != nil {
			return err
		}
		handle = limited(limit, rate{*count, *period})
	}
	network, address := splitAddr(*listen)
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	if network == "unix" {
		if err := os.Chmod(address, 0o666); err != nil { // nginx's workers are another user
			return err
		}
	}
	server := &fasthttp.Server{Handler: handle, NoDefaultServerHeader: true, NoDefaultDate: true, NoDefaultContentType: true}
	return server.Serve(l)
}

var (
	cacheControl = []byte("Cache-Control")
	noStore      = []byte("no-store")
	authzStatus  = []byte("X-Authz-Status")
	authzLimit   = []byte("X-Authz-Limit")
	policy       = []byte("RateLimit-Policy")
	rateLimit    = []byte("RateLimit")
	realIP       = []byte("X-Real-Ip")
	ok200        = []byte("200")
	limited429   = []byte("429")
	api          = []byte("api")
	apiPolicy    = []byte(`"api";q=10000;w=3600`)
	apiLeft      = []byte(`"api";r=9999;t=1`)
)

func floor(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.SetContentLength(0)
	h.SetCanonical(cacheControl, noStore)
	h.SetCanonical(authzStatus, ok200)
	h.SetCanonical(authzLimit, api)
	h.SetCanonical(policy, apiPolicy)
	h.SetCanonical(rateLimit, apiLeft)
}

func limited(limit limiter, r rate) fasthttp.RequestHandler {
	quota := []byte(`"api";q=` + strconv.Itoa(r.count) + ";w=" + strconv.Itoa(int(r.period/time.Second)))
	return func(ctx *fasthttp.RequestCtx) {
		admitted, remaining, reset, err := limit(ctx, "ip="+string(ctx.Request.Header.PeekBytes(realIP)))
		h := &ctx.Response.Header
		h.SetContentLength(0)
		h.SetCanonical(cacheControl, noStore)
		switch {
		case err != nil:
			ctx.SetStatusCode(fasthttp.StatusInternalServerError)
			return
		case admitted:
			h.SetCanonical(authzStatus, ok200)
		default:
			ctx.SetStatusCode(fasthttp.StatusForbidden)
			h.SetCanonical(authzStatus, limited429)
		}
		h.SetCanonical(authzLimit, api)
		h.SetCanonical(policy, quota)
		left := strconv.AppendInt([]byte(`"api";r=`), int64(remaining), 10)
		h.SetCanonical(rateLimit, strconv.AppendInt(append(left, ";t="...), int64(reset), 10))
	}
}
