package prove

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"authz/internal/route"
)

// connections is how many requests are under way at once, at most.
const connections = 50

// An observation is one request and what became of it, as the client sees it.
type observation struct {
	span
	key         int       // of which of our keys, if it has one of ours
	verdict     sighting  // of the limit that is to be proved
	status      int       // 0: none came
	answer      string    // the status, or why there is none
	retryAfterS int64     // seconds, 0 if it does not say
	date        time.Time // of the server, to a second; zero if it does not say
}

// A sighting is what an answer says of the limit.
type sighting uint8

const (
	sawNothing sighting = iota // not an answer of this limit
	sawAdmitted
	sawRefused
)

func (s sighting) String() string { return [...]string{"no verdict", "admitted", "refused"}[s] }

// A prober sends requests to the set-up: each once, and without following where an answer points.
type prober struct {
	client fasthttp.HostClient
	target *url.URL // as it was given
	direct bool     // it is authz itself: its answer is X-Authz-Status
	limit  string   // whose refusals count; empty: anybody's
	method string
	header [][2]string
	vary   [2]string // a header with {n} in it; no name: none
	began  time.Time

	atRandom bool // the keys are addresses of our own choice
}

func newProber(f *Options) *prober {
	b := &prober{target: f.target, direct: f.Direct, method: f.Method, header: f.headers, vary: f.varied, began: time.Now()}
	dialer := net.Dialer{Timeout: proveTimeout}
	b.client = fasthttp.HostClient{
		Addr:  fasthttp.AddMissingPort(f.target.Host, f.target.Scheme == "https"),
		IsTLS: f.target.Scheme == "https", TLSConfig: &tls.Config{ServerName: f.target.Hostname()},
		Dial:     func(addr string) (net.Conn, error) { return dialer.Dial("tcp", addr) },
		MaxConns: connections, ReadTimeout: proveTimeout, WriteTimeout: proveTimeout,
		MaxIdemponentCallAttempts: 1,           // a request that is sent twice is charged twice
		MaxIdleConnDuration:       time.Second, // sooner than servers close, which would lose a request
		DisablePathNormalizing:    true,
		StreamResponseBody:        true,
	}
	if b.direct && b.vary[0] == "" && !b.gives("X-Real-IP") {
		// Addresses that are for measuring (RFC 2544), some others in each run: {n} is one digit.
		b.vary = [2]string{"X-Real-IP", fmt.Sprintf("198.%d.%d.%d{n}", 18+rand.N(2), rand.N(256), 1+rand.N(24))}
		b.atRandom = true
	}
	return b
}

// proveTimeout is how long an answer may take.
const proveTimeout = 10 * time.Second

// hasOwnKeys says whether each key of ours is another one for the limit, as far as we know.
func (b *prober) hasOwnKeys() bool { return b.vary[0] != "" }

func (b *prober) gives(name string) bool {
	for _, h := range b.header {
		if strings.EqualFold(h[0], name) {
			return true
		}
	}
	return false
}

// host is what the requests are for: that of the URL, or of a Host among the headers.
func (b *prober) host() string {
	for _, h := range b.header {
		if strings.EqualFold(h[0], "Host") {
			return h[1]
		}
	}
	return b.target.Host
}

// nowUS is the time since the run began, by the clock that nobody sets.
func (b *prober) nowUS() int64 { return time.Since(b.began).Microseconds() }

// request is the request of one of our keys.
func (b *prober) request(key int) *fasthttp.Request {
	req := &fasthttp.Request{UseHostHeader: true}
	req.SetRequestURI(b.target.String())
	req.URI().DisablePathNormalizing = true
	req.Header.SetMethod(b.method)
	req.Header.SetUserAgent("authz-prove")
	req.Header.SetHost(b.target.Host)
	if b.direct {
		req.Header.SetMethod(fasthttp.MethodGet)
		req.SetRequestURI(b.target.Scheme + "://" + b.target.Host + route.All[0].Path)
		uri := b.target.RequestURI()
		if b.target.Path == route.All[0].Path {
			uri = "/"
		}
		req.Header.Set("X-Original-Method", b.method)
		req.Header.Set("X-Original-URI", uri)
		req.Header.Set("X-Original-Host", b.host())
	}
	given := map[string]bool{}
	for _, h := range append([][2]string{{b.vary[0], strings.ReplaceAll(b.vary[1], "{n}", strconv.Itoa(key))}}, b.header...) {
		switch name := strings.ToLower(h[0]); {
		case name == "":
		case given[name]:
			req.Header.Add(h[0], h[1])
		default:
			req.Header.Set(h[0], h[1])
			given[name] = true
		}
	}
	return req
}

// ask sends the request, once, and reads the answer, but for its body.
func (b *prober) ask(req *fasthttp.Request, key int) observation {
	var resp fasthttp.Response
	o := observation{key: key}
	o.fromUS = b.nowUS()
	err := b.client.Do(req, &resp)
	o.toUS = b.nowUS() + 1 // the microsecond that has begun
	if err != nil {
		o.answer = "no answer (" + reason(err) + ")"
		return o
	}
	b.read(&o, &resp)
	dropBody(resp.BodyStream())
	return o
}

// reason is what has gone wrong with a connection, without the addresses and ports of this one.
func reason(err error) string {
	var lookup *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "lookup " + lookup.Name + ": no such host"
	case errors.As(err, &lookup):
		return "lookup " + lookup.Name + ": no name server answers"
	case errors.As(err, &op):
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// dropBody ends what may be without end. A connection is used again if a body is read whole, so one that is
// short and comes at once is.
func dropBody(stream io.Reader) {
	const most, longest = 64 << 10, 100 * time.Millisecond // bytes
	body, ok := stream.(fasthttp.ReadCloserWithError)
	if !ok {
		return // none came
	}
	late := time.AfterFunc(longest, func() { body.CloseWithError(nil) })
	io.CopyN(io.Discard, body, most)
	late.Stop()
	body.CloseWithError(nil)
}

// read says what an answer means. Only what cannot be anything else is a verdict: not a 503, which may be a
// limiter that cannot count, nor a 403, which may be the site's own.
func (b *prober) read(o *observation, resp *fasthttp.Response) {
	status := resp.StatusCode()
	o.answer = strconv.Itoa(status)
	if b.direct {
		o.answer = string(resp.Header.Peek("X-Authz-Status"))
		if status, _ = strconv.Atoi(o.answer); status == 0 {
			o.answer = fmt.Sprintf("%d without X-Authz-Status", resp.StatusCode())
		}
	}
	o.retryAfterS, _ = strconv.ParseInt(string(resp.Header.Peek("Retry-After")), 10, 32)
	o.date, _ = fasthttp.ParseHTTPDate(resp.Header.Peek("Date"))
	if degraded := resp.Header.Peek("X-Authz-Degraded"); len(degraded) > 0 {
		o.answer += " with X-Authz-Degraded: " + string(degraded)
	}
	o.status = status
	switch by := string(resp.Header.Peek("X-Authz-Limit")); {
	case status == fasthttp.StatusTooManyRequests && b.limit != "" && by != "" && by != b.limit:
		o.answer += " of limit " + by
	case status == fasthttp.StatusTooManyRequests:
		o.verdict = sawRefused
	case status >= 200 && status < 400 || status == fasthttp.StatusNotFound && !b.direct:
		o.verdict = sawAdmitted
	}
}

// isLoopback says whether all that is sent stays on this machine.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
