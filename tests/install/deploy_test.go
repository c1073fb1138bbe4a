package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"authz/tests/rig"
)

const unitFile = "../deploy/authz.service"

func TestTheUnitsEnvironmentStartsTheService(t *testing.T) {
	a := startByUnit(t, unitFile, rig.AuthzBinary(t), "../limits/examples/quickstart.toml")
	if !strings.HasPrefix(a.Addr, "unix:") || !strings.HasSuffix(a.Addr, "/authz.sock") {
		t.Errorf("it listens on %s", a.Addr)
	}
}

// startByUnit starts a binary with what a unit says, but for what is this machine's.
func startByUnit(t testing.TB, unit, binary, limits string) *rig.AuthzServer {
	t.Helper()
	here := strings.NewReplacer("/etc/authz/limits.toml", limits, "/run/authz", rig.SocketDir(t), "redis://127.0.0.1:6379", rig.StartRedis(t).URL())
	args := []string{"AUTHZ_ADMIN=127.0.0.1:0"}
	for _, line := range submatches(t, unit, `(?m)^Environment=(.*)$`) {
		args = append(args, here.Replace(line))
	}
	command := submatches(t, unit, `(?m)^ExecStart=authz (.*)$`)
	a := rig.LaunchBinary(t, binary, append(strings.Fields(command[0]), args...)...)
	a.Await(t, "msg=serving ")
	a.Addr = submatch(t, a.Logged(), `for=checks addr=(\S+)`)
	a.Admin = submatch(t, a.Logged(), `for=admin addr=(\S+)`)
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
	_, help := rig.Authz(t, "serve", "--help")
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
		if found, _ := filepath.Glob("../" + from); len(found) == 0 && !strings.HasPrefix(from, "${BIN}/") {
			t.Errorf("nfpm.yaml: %s is not there", from)
		}
	}
}

// The limits of the manifest are right, and what the image's health check runs is there.
func TestTheManifestsLimitsAndCommandsWork(t *testing.T) {
	var configMap struct{ Data map[string]string }
	var deployment struct{ Spec struct{ Replicas int } }
	documents := yaml.NewDecoder(strings.NewReader(rig.ReadText(t, "../deploy/kubernetes/authz.yaml")))
	if err := errors.Join(documents.Decode(&configMap), documents.Decode(&deployment)); err != nil {
		t.Fatal(err)
	}
	limits := rig.LimitsFile(t, configMap.Data["limits.toml"])
	// While Redis is away each instance admits its share, of as many as there are.
	rig.Same(t, submatch(t, configMap.Data["limits.toml"], `(?m)^replicas = (\d+)$`), fmt.Sprint(deployment.Spec.Replicas))
	rig.Exactly(t, "exit 0\ngood: 1 limit, 0 allow rules, 0 deny rules, 0 overrides\n", "check", limits)
	a := rig.StartAuthz(t, "--limits="+limits)
	rig.Exactly(t, "exit 0\nserving\nstore: memory\n", "ready", "--admin="+a.Admin)
	rig.Exactly(t, "exit 1\nauthz: ready: --admin=127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; is authz serve running, with this --admin?\n",
		"ready", "--admin=127.0.0.1:1")
}
