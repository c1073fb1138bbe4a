package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const unitFile = "../deploy/authz.service"

func TestTheUnitsEnvironmentStartsTheService(t *testing.T) {
	a := startByUnit(t, unitFile, authzBinary(t), "../limits/examples/quickstart.toml")
	if !strings.HasPrefix(a.addr, "unix:") || !strings.HasSuffix(a.addr, "/authz.sock") {
		t.Errorf("it listens on %s", a.addr)
	}
}

// startByUnit starts a binary with what a unit says, but for what is this machine's.
func startByUnit(t testing.TB, unit, binary, limits string) *authzServer {
	t.Helper()
	here := strings.NewReplacer("/etc/authz/limits.toml", limits, "/run/authz", socketDir(t), "redis://127.0.0.1:6379", startRedis(t).url())
	args := []string{"AUTHZ_ADMIN=127.0.0.1:0"}
	for _, line := range submatches(t, unit, `(?m)^Environment=(.*)$`) {
		args = append(args, here.Replace(line))
	}
	command := submatches(t, unit, `(?m)^ExecStart=authz (.*)$`)
	a := launchBinary(t, binary, append(strings.Fields(command[0]), args...)...)
	a.await(t, "msg=serving ")
	a.addr = submatch(t, a.logged(), `for=checks addr=(\S+)`)
	a.admin = submatch(t, a.logged(), `for=admin addr=(\S+)`)
	return a
}

func submatch(t testing.TB, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("nothing matches %s in\n%s", pattern, text)
	}
	return m[1]
}

// The manifests are YAML without doubles and unknown tags, name only flags that there are, and ports that are ours.
func TestTheManifestsNameWhatThereIs(t *testing.T) {
	_, help := authz(t, "serve", "--help")
	for _, file := range []string{"compose/compose.yml", "kubernetes/authz.yaml", "Dockerfile", "authz.service", "deb/nfpm.yaml", "prometheus/alerts.yml"} {
		text, err := os.ReadFile("../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".yml") || strings.HasSuffix(file, ".yaml") {
			documents := yaml.NewDecoder(bytes.NewReader(text))
			for err == nil {
				var document map[string]any
				err = documents.Decode(&document)
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v", file, err)
			}
		}
		for _, name := range regexp.MustCompile(`AUTHZ_\w+`).FindAllString(string(text), -1) {
			if !strings.Contains(help, "$"+name+")") && !strings.Contains(help, "$"+name+",") {
				t.Errorf("%s: %s is no variable of authz serve", file, name)
			}
		}
	}
	for _, from := range submatches(t, "../deploy/deb/nfpm.yaml", `src: "?([^,"]+)`) {
		if found, _ := filepath.Glob("../" + from); len(found) == 0 && !strings.HasPrefix(from, "bin/") {
			t.Errorf("nfpm.yaml: %s is not there", from)
		}
	}
}

// The limits of the manifest are right, and what the image runs is there.
func TestTheManifestsLimitsAndCommandsWork(t *testing.T) {
	var configMap struct{ Data map[string]string }
	text, err := os.ReadFile("../deploy/kubernetes/authz.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &configMap)
	}
	if err != nil {
		t.Fatal(err)
	}
	limits := limitsFile(t, configMap.Data["limits.toml"])
	exactly(t, "exit 0\ngood: 1 limit, 0 allow rules, 0 deny rules, 0 overrides\n", "check", limits)
	a := startAuthz(t, "--limits="+limits)
	exactly(t, "exit 0\nserving\nstore: memory\n", "ready", "--admin="+a.admin)
	exactly(t, "exit 1\nauthz: ready: --admin=127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; is authz serve running, with this --admin?\n",
		"ready", "--admin=127.0.0.1:1")

	out := filepath.Join(t.TempDir(), "authz")
	build := exec.Command("sh", "-c", strings.Replace(submatch(t, readText(t, "../deploy/Dockerfile"), `(?m)^RUN (CGO_ENABLED=0 .*)$`), "-o /authz", "-o "+out, 1))
	build.Dir, build.Env = "..", append(os.Environ(), "VERSION=9.9.9")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	version, err := exec.Command(out, "version").Output()
	if err != nil || !regexp.MustCompile(`^authz 9\.9\.9 (\([0-9a-f]{12}\+?\) )?go1\.\S+ linux/\w+\n$`).Match(version) {
		t.Errorf("%q, %v", version, err)
	}
	if libraries, _ := exec.Command("ldd", out).CombinedOutput(); !strings.Contains(string(libraries), "not a dynamic executable") {
		t.Errorf("not static: %s", libraries)
	}
}

func readText(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sh runs a command as root, which CI is, and fails with what it said.
func sh(t testing.TB, command string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// The package is installed, serves by its unit's own command line, is upgraded with what was edited kept, and leaves
// nothing behind but what the owner has put there.
func TestTheDebianPackageIsInstalledUpgradedAndRemoved(t *testing.T) {
	if out, _ := exec.Command("dpkg-query", "-W", "-f=${Status} ${Version}", "authz").Output(); len(out) > 0 && !strings.Contains(string(out), "~test") {
		t.Fatalf("a package authz is installed here that this test has not made (%s): want a machine without", out)
	}
	const first, second = "0.0.1~test1", "0.0.1~test2"
	arch := strings.TrimSpace(sh(t, "go env GOARCH"))
	deb := func(version string) string {
		sh(t, "cd .. && make deb VERSION="+version)
		return fmt.Sprintf("../bin/authz_%s_%s.deb", version, arch)
	}
	t.Cleanup(func() { exec.Command("dpkg", "--purge", "authz").Run() })
	sh(t, "dpkg -i "+deb(first))
	a := startByUnit(t, "/usr/lib/systemd/system/authz.service", "/usr/bin/authz", "/etc/authz/limits.toml")
	if got := a.checker().check(t, "POST /login", []string{"X-Real-IP: 203.0.113.9"}); got != "200" {
		t.Errorf("asked: %s", got)
	}
	a.stop(t)
	if got := sh(t, "authz version"); !strings.HasPrefix(got, "authz "+first+" ") {
		t.Errorf("version %s", got)
	}
	if got := sh(t, "man --warnings -l ../bin/authz.1.gz 2>&1 >/dev/null"); got != "" {
		t.Errorf("man: %s", got)
	}

	sh(t, "echo '# ours' >> /etc/authz/limits.toml && echo x > /etc/authz/environment")
	sh(t, "dpkg -i "+deb(second))
	if text := readText(t, "/etc/authz/limits.toml"); !strings.HasSuffix(text, "# ours\n") {
		t.Errorf("the upgrade has replaced what was edited:\n%s", text)
	}
	if got := sh(t, "authz version"); !strings.HasPrefix(got, "authz "+second+" ") {
		t.Errorf("version %s", got)
	}
	sh(t, "dpkg --remove authz")
	if _, err := os.Stat("/usr/bin/authz"); err == nil || !strings.HasSuffix(readText(t, "/etc/authz/limits.toml"), "# ours\n") {
		t.Error("a removal leaves the binary, or takes the limits")
	}
	sh(t, "dpkg --purge authz")
	if got := sh(t, "ls /etc/authz"); got != "environment\n" {
		t.Errorf("after a purge /etc/authz has %q, want what the package did not bring", got)
	}
	sh(t, "rm /etc/authz/environment && rmdir /etc/authz")
	if left := sh(t, "ls -d /usr/share/authz /etc/nginx/authz /usr/share/doc/authz 2>/dev/null || true"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
