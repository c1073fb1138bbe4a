package tests

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheUnitsEnvironmentStartsTheService(t *testing.T) {
	unit, err := os.ReadFile("../deploy/authz.service")
	if err != nil {
		t.Fatal(err)
	}
	dir := socketDir(t)
	here := strings.NewReplacer(
		"/etc/authz/limits.toml", "../limits/examples/quickstart.toml",
		"/run/authz", dir,
		"redis://127.0.0.1:6379", startRedis(t).url())
	var environment []string
	for _, m := range regexp.MustCompile(`(?m)^Environment=(.*)$`).FindAllStringSubmatch(string(unit), -1) {
		environment = append(environment, here.Replace(m[1]))
	}
	a := startAuthz(t, environment...)
	if want := "unix:" + dir + "/authz.sock"; a.addr != want {
		t.Errorf("it listens on %s, want %s", a.addr, want)
	}
}
