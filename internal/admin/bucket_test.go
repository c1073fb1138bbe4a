package admin

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"authz/internal/store"
	"authz/internal/testkit"
	"authz/limits"
)

// bucketsOf is those of a limits file, in memory.
func bucketsOf(t *testing.T, toml string, log *slog.Logger) *Buckets {
	t.Helper()
	set, err := limits.Load("authz", testkit.WriteFile(t, "limits.toml", toml))
	if err != nil {
		t.Fatal(err)
	}
	return &Buckets{Set: set, memory: store.NewMemory(100), Log: log}
}

const bucketLimits = `
	[limit.login]
	key       = ["ip"]
	algorithm = "sliding_window"
	rate      = "2/d"
	[override.login."192.0.2.0/24"]
	rate = "5/d"
	[limit.cold]
	key       = ["ip"]
	algorithm = "token_bucket"
	rate      = "10/h"
	initial   = 0.3
	[limit.shop]
	key       = []
	algorithm = "fixed_window"
	rate      = "7/365d"
	mode      = "shadow"
	[schedule.shop.always]
	rate  = "9/365d"
	days  = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
	zone  = "UTC"`

func TestABucketIsToldWithTheNumbersInForce(t *testing.T) {
	b := bucketsOf(t, bucketLimits, slog.New(slog.DiscardHandler))
	charge := func(limit, key string, times int) {
		_, c, err := b.find(limit, key)
		if err != nil {
			t.Fatal(err)
		}
		for range times {
			b.memory.Take(t.Context(), 0, []limits.Check{c}, false, nil)
		}
	}
	told := func(want, limit, key string) {
		t.Helper()
		for range 2 { // a look charges nothing
			found, err := b.Look(t.Context(), limit, key)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			found.Write(&out)
			if got := regexp.MustCompile(`in \d[\dhms.µ]*`).ReplaceAllString(out.String(), "in T"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}
	}
	const login = "limit.login: sliding_window, 2/d\n  key    ip=198.51.100.7\n  redis  authz:v1:{ip=198.51.100.7}:login:sw\n"
	told(login+"  bucket as never used: 2 of 2 left\n", "login", "198.51.100.7")
	charge("login", "198.51.100.7", 1)
	told(login+"  bucket 1 of 2 left, as never used in T\n", "login", "198.51.100.7")
	charge("login", "198.51.100.7", 1)
	told(login+"  bucket 0 of 2 left, the next in T, as never used in T\n", "login", "198.51.100.7")
	told("limit.login: sliding_window, 5/d (by an override)\n  key    ip=192.0.2.7\n  redis  authz:v1:{ip=192.0.2.7}:login:sw\n"+
		"  bucket as never used: 5 of 5 left\n", "login", "192.0.2.7")
	const cold = "limit.cold: token_bucket, 10/h, burst 10\n  key    ip=192.0.2.7\n  redis  authz:v1:{ip=192.0.2.7}:cold:tb\n"
	told(cold+"  bucket as never used: 3 of 10 left\n", "cold", "192.0.2.7")
	charge("cold", "192.0.2.7", 1)
	told(cold+"  bucket 2 of 10 left, full in T\n", "cold", "192.0.2.7")
	charge("shop", "", 1)
	told("limit.shop: fixed_window, 9/365d (by schedule always), shadow\n  key    everybody\n  redis  authz:v1:{shop}:shop:fw\n"+
		"  bucket 8 of 9 left, as never used in T\n", "shop", "")
}

func TestAResetLeavesALineAndNoSecret(t *testing.T) {
	log, out := testkit.Log()
	b := bucketsOf(t, "[limit.plan]\nkey = [\"header:X-API-Key\"]\nmissing = \"skip\"\nalgorithm = \"fixed_window\"\nrate = \"2/365d\"\n", log)
	_, c, _ := b.find("plan", "s3cr3t")
	b.memory.Take(t.Context(), 0, []limits.Check{c}, false, nil)
	reset := func(want string, deleted bool, key string) {
		t.Helper()
		out.Reset()
		r, err := b.Reset(t.Context(), "plan", key, "ann\nlevel=INFO")
		if r.Deleted != deleted || (err != nil) != (want == "") || out.String() != want {
			t.Errorf("%s: deleted %v, %v, logged\n%swant\n%s", key, r.Deleted, err, out, want)
		}
	}
	const line = `level=INFO msg="bucket reset" limit=plan key="header:x-api-key=*4e738ca5563c06cfd0018299933d58db" ` +
		`redis_key="authz:v1:{header:x-api-key=*4e738ca5563c06cfd0018299933d58db}:plan:fw" deleted=`
	reset(line+"true by=\"ann\\nlevel=INFO\"\n", true, "s3cr3t")
	reset(line+"false by=\"ann\\nlevel=INFO\"\n", false, "header:x-api-key=*4e738ca5563c06cfd0018299933d58db")
	reset("", false, "") // is no key of the limit: nothing was tried
}

// What tests/service/undo_test.go cannot have without other addresses: a listener for other machines, and a socket.
func TestWhoMayUseTheAdminListenerDependsOnWhereItIs(t *testing.T) {
	log, out := testkit.Log()
	listener := func(tokenFile string, unix, loopback bool) http.Handler {
		return (&Admin{Service: running(t, bucketLimits, ""), buckets: *bucketsOf(t, bucketLimits, log), guard: guard{tokenFile: tokenFile, unix: unix,
			loopback: loopback, denied: prometheus.NewCounter(prometheus.CounterOpts{}), log: log}}).handler()
	}
	sent := func(want string, to http.Handler, header ...string) {
		t.Helper()
		r := httptest.NewRequest("POST", "/reset", strings.NewReader("limit=login&key=192.0.2.7"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			if r.Header.Set(name, value); name == "Host" {
				r.Host = value
			}
		}
		w := httptest.NewRecorder()
		to.ServeHTTP(w, r)
		text, _ := io.ReadAll(w.Body)
		got := strings.TrimSpace(string(text))
		if w.Code == http.StatusOK {
			got = "done"
		}
		if got != want {
			t.Errorf("%v: %s, want %s", header, got, want)
		}
	}
	token := testkit.WriteFile(t, "token", "0123456789abcdef\n")
	const bearer = "Authorization: Bearer 0123456789abcdef"
	const elsewhere = `{"error":"a page of another site has sent this"}`
	everywhere := listener(token, false, false)
	sent("done", everywhere, bearer, "Host: authz.internal:7430") // whose names are not known here
	sent("done", everywhere, bearer, "Host: authz.internal", "Origin: http://authz.internal")
	sent("done", everywhere, bearer, "Host: authz.internal", "Sec-Fetch-Site: same-origin")
	sent(elsewhere, everywhere, bearer, "Host: authz.internal", "Origin: http://evil.test")
	sent(`{"error":"want the token of --admin-token-file"}`, everywhere, "Host: authz.internal")
	sent(`{"error":"the token is wrong, want that of --admin-token-file"}`, everywhere, "Authorization: Bearer 0123456789abcdeF")

	here := listener(token, false, true)
	sent("done", here, bearer, "Host: 127.0.0.1:7430")
	sent("done", here, bearer, "Host: [::1]:7430")
	sent("done", here, bearer, "Host: localhost")
	sent(`{"error":"Host: authz.internal, want localhost or an address: this listener is for this machine"}`, here, bearer, "Host: authz.internal")

	socket := listener("", true, false)
	sent("done", socket, "Host: localhost")
	sent(elsewhere, socket, "Host: localhost", "Sec-Fetch-Site: cross-site")

	if strings.Contains(out.String(), "0123456789") {
		t.Errorf("a token is in the log:\n%s", out)
	}
}

func TestATokenIsOneLongWord(t *testing.T) {
	check := func(text, want string) {
		t.Helper()
		file := testkit.WriteFile(t, "token", text)
		token, err := ReadToken(file)
		if err != nil {
			token = strings.ReplaceAll(err.Error(), file, "FILE")
		}
		if token != want {
			t.Errorf("%q: %s, want %s", text, token, want)
		}
	}
	const wrong = "FILE: want one word of 16 characters at least, such as openssl rand -hex 16 writes"
	check("0123456789abcdef", "0123456789abcdef")
	check("0123456789abcdef\r\n", "0123456789abcdef")
	check("0123456789abcde\n", wrong)
	check("", wrong)
	check("0123456789abcdef 0", wrong)
	check("0123456789abcdef\n0123456789abcdef\n", wrong)
}
