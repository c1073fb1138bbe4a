package rig

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// Exactly runs authz and compares its exit code and all that it prints, but for times and log lines.
func Exactly(t testing.TB, want string, args ...string) {
	t.Helper()
	code, printed := Authz(t, args...)
	printed = regexp.MustCompile(`(?m)^time=.*\n`).ReplaceAllString(printed, "")
	printed = regexp.MustCompile(`in \d[\d.hmµs]*`).ReplaceAllString(printed, "in T")
	if got := fmt.Sprintf("exit %d\n%s", code, printed); got != want {
		t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
	}
}

const UndoLimits = `
	[limit.login]
	match     = { path = "/login" }
	key       = ["ip"]
	algorithm = "sliding_window"
	rate      = "2/d"
	[limit.plan]
	match     = { path = "/plan" }
	key       = ["header:X-API-Key"]
	missing   = "skip"
	algorithm = "token_bucket"
	rate      = "3/d"
	[override.plan."s3cr3t"]
	rate      = "4/d"`

// Account makes one by the README's rules and these, and returns the URL to use it with.
func (r *RedisServer) Account(t testing.TB, name string, more ...any) string {
	t.Helper()
	rules := AsAny(strings.Fields(regexp.MustCompile(`(?m)^ *user authz on >PASSWORD (.*)$`).FindStringSubmatch(Readme(t))[1]))
	r.MustDo(t, append(append([]any{"acl", "setuser", name, "on", ">pass"}, rules...), more...)...)
	return "unix://" + name + ":pass@" + r.Socket
}
