package rig

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Doctor runs authz doctor, and returns its exit code and what it printed: times as T, the server as REDIS.
func Doctor(t *testing.T, url string, args ...string) string {
	t.Helper()
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--redis-timeout=") }) {
		args = append(args, "--redis-timeout=20s")
	}
	code, text := Authz(t, append([]string{"doctor", "--redis=" + url}, args...)...)
	if strings.Contains(text, "s3cr3t") {
		t.Errorf("a secret is printed:\n%s", text)
	}
	scheme, rest, _ := strings.Cut(url, "://")
	address, _, _ := strings.Cut(rest[strings.LastIndex(rest, "@")+1:], "?")
	text = strings.ReplaceAll(text, scheme+"://"+address, "REDIS")
	return fmt.Sprintf("exit %d\n%s", code, regexp.MustCompile(`(\d+(\.\d+)?(ms|µs|ns|h|m|s))+`).ReplaceAllString(text, "T"))
}

// Healthy is what there is to say of a Redis that is as it should be.
const Healthy = `exit 0
ok       connection  REDIS answers after T, in time for --redis-timeout=T
ok       server      Redis 7.0.15, standalone, master
ok       clock       as this machine's
ok       memory      no maxmemory: no key is evicted
ok       account     may do all that is needed with keys that begin with authz:
ok       scripts     charge and refuse: take, token_bucket, leaky_bucket, fixed_window, sliding_window, sliding_counter
ok       speed       T a check, T for the slowest of 20, in time for --redis-timeout=T
`

// whatClockSays is for a machine so slow that a clock cannot be read at once.
var whatClockSays = regexp.MustCompile(`(clock       )T (ahead of|behind) this machine's; limits go by Redis's`)

func Diagnosis(t *testing.T, got, want string) {
	t.Helper()
	if got = whatClockSays.ReplaceAllString(got, "${1}as this machine's"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

const AllScripts = "take, token_bucket, leaky_bucket, fixed_window, sliding_window, sliding_counter"

func AsAny(words []string) (out []any) {
	for _, w := range words {
		out = append(out, w)
	}
	return out
}
