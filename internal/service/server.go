package service

import (
	"errors"
	"io"
	"math"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"authz/internal/decision"
	"authz/internal/monotonic"
	"authz/internal/route"
)

// silent takes what fasthttp wants to log: its messages have headers in them.
type silent struct{}

func (silent) Printf(string, ...any) {}

// headerBytes is what a request's line and headers may have: 64 KB of headers, and a line of the length
// that nginx itself accepts. Every open connection keeps a buffer of this size, so that a thousand idle
// ones are some 76 MB; fasthttp could give it back between requests, at the price of one more system
// call for each.
const headerBytes = 64<<10 + 8<<10

// server is the HTTP server around the service. What a client can reach through nginx never makes it
// answer anything but 200, 403 or 404: nginx would turn it into 500, which a site may have chosen to
// let pass.
func (s *Service) server() *fasthttp.Server {
	return &fasthttp.Server{
		Handler:        s.handle,
		HeaderReceived: expectNoBody,
		ErrorHandler:   s.reject,
		Logger:         silent{},

		// No timeouts: a conn keeps its times itself.
		ReadBufferSize: headerBytes,

		MaxIdleWorkerDuration: 2 * time.Second, // a crowd that has left leaves no goroutines

		Concurrency:           math.MaxInt32, // open files are the limit: over its own, fasthttp answers 503
		LazyRequestTime:       true,          // a conn keeps the time itself
		CloseOnShutdown:       true,
		NoDefaultServerHeader: true,
		NoDefaultDate:         true,
		NoDefaultContentType:  true,
		SecureErrorLogMessage: true,
	}
}

// expectNoBody makes fasthttp answer at once what announces a body, and close: whatever follows the
// headers is not read, and is not taken for the next request.
func expectNoBody(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if n := h.ContentLength(); n > 0 || n == -1 || len(h.Peek("Expect")) > 0 {
		h.SetContentLength(0) // and no Transfer-Encoding
		h.Del("Expect")
		h.SetConnectionClose()
	}
	return fasthttp.RequestConfig{}
}

func (s *Service) handle(ctx *fasthttp.RequestCtx) {
	if h := &ctx.Request.Header; h.ConnectionClose() && len(h.Peek(fasthttp.HeaderContentLength)) > 0 {
		lingerAtEnd(ctx)
	}
	ctx.Response.Header.SetContentLength(0) // fasthttp leaves it out of an answer to HEAD
	at := route.IndexOf(ctx.Request.Header.RequestURI())
	if at < 0 {
		ctx.Response.Header.SetCanonical(headerCacheControl, noStore)
		ctx.SetStatusCode(fasthttp.StatusNotFound)
		return
	}
	arrived := monotonic.Now()
	if c, ok := ctx.Conn().(*conn); ok {
		arrived = c.arrived // what was spent on reading the request counts too
	}
	q := s.requests.Get().(*request)
	d := s.answer(ctx, at, q)
	if q.holds {
		time.Sleep(holdOf(&d, q.rules.Set.HoldMaxUS(), monotonic.Now()-arrived))
		s.held.Add(-1)
		q.holds = false
	}
	s.Metrics.requests[d.Verdict].Inc()
	ctx.SetStatusCode(statuses[at][d.Verdict])
	q.text = s.style.set(&ctx.Response.Header, &d, q.text)
	if !q.broken {
		s.requests.Put(q)
	}
}

// statuses are what the proxy of a route understands. auth_request makes 500 of everything but 2xx, 401 and 403.
var statuses = [len(route.All)][decision.Verdicts]int{ofAuthRequest, ofAuthRequest}

var ofAuthRequest = [decision.Verdicts]int{decision.Admitted: 200, decision.Limited: 403, decision.Blocked: 403, decision.Unavailable: 403}

// holdOf is how much longer the answer is held, after what was spent since its request arrived. A clock that stepped
// back asks for more than holdMaxUS.
func holdOf(d *decision.Decision, holdMaxUS int64, spent time.Duration) time.Duration {
	return min(time.Duration(min(d.HoldUS, holdMaxUS))*time.Microsecond, decision.LongestAnswer-spent)
}

// lingerAtEnd is for a connection that is closed with something unread.
func lingerAtEnd(ctx *fasthttp.RequestCtx) {
	if c, ok := ctx.Conn().(*conn); ok {
		c.linger.Store(true)
	}
}

// rejections are all words that rejection may say.
var rejections = []string{"too_large", "too_slow", "cut_short", "malformed"}

// rejection says in one word why fasthttp could not read a request.
func rejection(err error) string {
	var small *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.As(err, &small):
		return "too_large"
	case errors.As(err, &network) && network.Timeout():
		return "too_slow"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut_short"
	}
	return "malformed"
}

// reject answers what fasthttp's parser does not read: it no longer knows the route then.
func (s *Service) reject(ctx *fasthttp.RequestCtx, err error) {
	kind := rejection(err)
	s.Metrics.rejected.WithLabelValues(kind).Inc()
	if s.warned.rejected.Due() {
		s.Log.Warn("request blocked: it cannot be read", "kind", kind)
	}
	lingerAtEnd(ctx)
	ctx.Response.Reset()
	ctx.SetStatusCode(fasthttp.StatusForbidden)
	ctx.Response.Header.SetContentLength(0)
	s.style.set(&ctx.Response.Header, &decision.Decision{Verdict: decision.Blocked}, nil)
}
