package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"authz/internal/monotonic"
)

// A guard says who may use the admin listener for what. Reads of keys are for whoever reaches it. Writes need the
// token of --admin-token-file, but on a unix socket, whose file mode says who may connect.
//
// A browser must not be made to do either by a page from elsewhere: what another site sends is refused, and so is a
// name that somebody's DNS has pointed at a loopback address.
type guard struct {
	tokenFile string // read for each write, so that it may change
	unix      bool
	loopback  bool // only this machine reaches it

	cross  http.CrossOriginProtection
	denied prometheus.Counter
	warned monotonic.OncePerMinute
	log    *slog.Logger
}

const mostForm = 64 << 10 // bytes

// ownHost refuses requests for a name that is not this machine's: /metrics and the probes too.
func (g *guard) ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.rebound(r); err != nil {
			answerJSON(w, nil, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *guard) reads(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		next(w, r)
	})
}

// writes lets those through who have the token: as Authorization: Bearer, or as the field "token" of a form.
func (g *guard) writes(next http.HandlerFunc) http.Handler {
	return g.reads(func(w http.ResponseWriter, r *http.Request) {
		if err := g.mayWrite(r); err != nil {
			g.refuseWrite(r, err)
			answerJSON(w, nil, err)
			return
		}
		next(w, r)
	})
}

// refuseWrite counts and logs that somebody may not.
func (g *guard) refuseWrite(r *http.Request, err error) {
	g.denied.Inc()
	if g.warned.Due() {
		g.log.Warn("write refused on the admin listener", "peer", r.RemoteAddr, "error", err.Error())
	}
}

// A deniedError is answered with 403.
type deniedError struct{ error }

func denied(format string, a ...any) error { return deniedError{fmt.Errorf(format, a...)} }

func (g *guard) mayWrite(r *http.Request) error {
	if err := g.cross.Check(r); err != nil {
		return denied("a page of another site has sent this")
	}
	if g.unix {
		return nil
	}
	if g.tokenFile == "" {
		return denied("this authz serve was started without a token, and changes nothing: start it with --admin-token-file=FILE and give reset the same, or with --admin=unix:/path; without a restart, reset asks Redis itself by --redis and --limits")
	}
	want, err := ReadToken(g.tokenFile)
	if err != nil {
		return denied("--admin-token-file=%w", err)
	}
	got, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !isBearer {
		got = r.PostFormValue("token")
	}
	if got == "" {
		return denied("want the token of --admin-token-file")
	}
	if a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want)); subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return denied("the token is wrong, want that of --admin-token-file")
	}
	return nil
}

// ReadToken reads a token, which ends where its line does.
func ReadToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, errors.Unwrap(err))
	}
	token := strings.TrimSpace(string(text))
	if len(token) < leastToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("%s: want one word of %d characters at least, such as openssl rand -hex 16 writes", file, leastToken)
	}
	return token, nil
}

const leastToken = 16

// rebound is an error if a request that only this machine can send is for a name that is not this machine's.
func (g *guard) rebound(r *http.Request) error {
	if !g.loopback {
		return nil
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = strings.Trim(r.Host, "[]")
	}
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return nil
	}
	return denied("Host: %s, want localhost or an address: this listener is for this machine", host)
}
