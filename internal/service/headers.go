package service

import (
	"strconv"

	"github.com/valyala/fasthttp"

	"authz/internal/decision"
	"authz/limits"
)

// headerStyle is what --headers asks for.
type headerStyle struct {
	ietf, legacy  bool
	retryAfterMax int64 // seconds, 0: no cap
}

var (
	headerCacheControl = []byte("Cache-Control")
	headerRetryAfter   = []byte("Retry-After")
	headerStatus       = []byte("X-Authz-Status")
	headerLimit        = []byte("X-Authz-Limit")
	headerDegraded     = []byte("X-Authz-Degraded")
	headerPolicy       = []byte("RateLimit-Policy")
	headerRateLimit    = []byte("RateLimit")
	headerLegacyLimit  = []byte("X-RateLimit-Limit")
	headerLegacyLeft   = []byte("X-RateLimit-Remaining")
	headerLegacyReset  = []byte("X-RateLimit-Reset")

	noStore = []byte("no-store")
)

// largestCount is the largest integer that a structured field may have (RFC 9651).
const largestCount = 999_999_999_999_999

// set writes the answer's headers, with buf to work in.
func (o headerStyle) set(h *fasthttp.ResponseHeader, d *decision.Decision, buf []byte) []byte {
	number := func(name []byte, n int64) {
		buf = strconv.AppendInt(buf[:0], n, 10)
		h.SetCanonical(name, buf)
	}
	h.SetCanonical(headerCacheControl, noStore)
	number(headerStatus, int64(d.Verdict.Status()))
	if d.Limit != nil {
		buf = append(buf[:0], d.Limit.Name...)
		h.SetCanonical(headerLimit, buf)
	}
	if d.Degraded != decision.AsUsual {
		buf = append(buf[:0], d.Degraded.String()...)
		h.SetCanonical(headerDegraded, buf)
	}
	seconds := o.seconds(d)
	if seconds >= 0 && d.Verdict != decision.Admitted {
		number(headerRetryAfter, seconds)
	}
	if d.Rate == nil {
		return buf
	}
	quota := min(d.Rate.Size(d.Limit.Algorithm), largestCount)
	left := min(d.Result.Remaining, largestCount)
	if o.ietf {
		buf = appendPolicy(buf[:0], d.Limit, d.Rate, quota)
		h.SetCanonical(headerPolicy, buf)
		buf = appendName(buf[:0], d.Limit)
		buf = strconv.AppendInt(append(buf, ";r="...), left, 10)
		if seconds >= 0 {
			buf = strconv.AppendInt(append(buf, ";t="...), seconds, 10)
		}
		h.SetCanonical(headerRateLimit, buf)
	}
	if o.legacy {
		number(headerLegacyLimit, quota)
		number(headerLegacyLeft, left)
		if seconds >= 0 {
			number(headerLegacyReset, seconds)
		}
	}
	return buf
}

// seconds is Retry-After of a refusal, and of an admitted request until its key is as if never used.
// -1: no wait helps.
func (o headerStyle) seconds(d *decision.Decision) int64 {
	switch {
	case d.Verdict == decision.Unavailable:
		return 1
	case d.Verdict == decision.Admitted:
		return ceilSeconds(d.Result.ResetUS)
	case d.Verdict != decision.Limited || d.Result.WaitUS < 0:
		return -1
	}
	return o.retryAfter(d.Result.WaitUS)
}

// retryAfter is a wait in whole seconds.
func (o headerStyle) retryAfter(waitUS int64) int64 {
	wait := max(1, ceilSeconds(waitUS))
	if o.retryAfterMax > 0 {
		wait = min(wait, o.retryAfterMax)
	}
	return wait
}

func ceilSeconds(us int64) int64 { return us/1_000_000 + min(us%1_000_000, 1) }

// appendName appends the limit's name, which needs no escapes, as a structured string.
func appendName(dst []byte, l *limits.Limit) []byte {
	return append(append(append(dst, '"'), l.Name...), '"')
}

// appendPolicy appends "name";q=QUOTA;w=SECONDS. A bucket's window is the time that refills it.
func appendPolicy(dst []byte, l *limits.Limit, r *limits.Rate, quota int64) []byte {
	dst = strconv.AppendInt(append(appendName(dst, l), ";q="...), quota, 10)
	us, rest := r.WindowUS, int64(0)
	if l.Algorithm == limits.TokenBucket || l.Algorithm == limits.LeakyBucket {
		if r.N == 0 {
			return dst
		}
		us, rest = r.Capacity/r.N, r.Capacity%r.N
	}
	if rest == 0 && us%1_000_000 == 0 {
		dst = strconv.AppendInt(append(dst, ";w="...), us/1_000_000, 10)
	}
	return dst
}
