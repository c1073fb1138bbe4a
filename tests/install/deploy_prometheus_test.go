package install

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authz/tests/rig"
)

func TestTheAlertsFireWhenTheyMustAndOnlyThen(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = "../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	tested, err := os.ReadFile("../deploy/prometheus/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range submatches(t, "../deploy/prometheus/alerts.yml", `alert: (\w+)`) {
		for _, does := range []string{"fires", "is silent"} {
			if !strings.Contains(string(tested), "- name: "+name+" "+does+"\n") {
				t.Errorf("no test that %s %s", name, does)
			}
		}
	}
}

// submatches are the first groups of what matches in a file.
func submatches(t testing.TB, file, pattern string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	if len(all) == 0 {
		t.Fatalf("%s: nothing matches %s", file, pattern)
	}
	return all
}

// A runbook is a heading of docs/operating.md.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	var anchors []string
	for _, heading := range submatches(t, "../docs/operating.md", `(?m)^#+ (.*)$`) {
		anchors = append(anchors, "docs/operating.md#"+strings.ReplaceAll(regexp.MustCompile("[^a-z0-9 -]").ReplaceAllString(strings.ToLower(heading), ""), " ", "-"))
	}
	for _, runbook := range submatches(t, "../deploy/prometheus/alerts.yml", `runbook: (\S+)`) {
		if !slices.Contains(anchors, runbook) {
			t.Errorf("%s is not there, want one of %v", runbook, anchors)
		}
	}
}

// prometheus is one of this test's own, that scrapes an authz each second.
type prometheus struct{ url string }

func startPrometheus(t testing.TB, target string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	alerts, err := filepath.Abs("../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	rig.ReplaceFile(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf(`
global: {scrape_interval: 200ms, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs: [{job_name: authz, static_configs: [{targets: ["%s"]}]}]
`, alerts, target))
	addr := "127.0.0.1:" + rig.FreePort(t)
	p := &prometheus{"http://" + addr}
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=warn")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	rig.Await(t, "Prometheus", func() bool {
		response, err := http.Get(p.url + "/-/ready")
		if err == nil {
			response.Body.Close()
		}
		return err == nil && response.StatusCode == 200
	})
	return p
}

// query is how many series an expression has now.
func (p *prometheus) query(t testing.TB, expr string) int {
	t.Helper()
	response, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var said struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if text, _ := io.ReadAll(response.Body); json.Unmarshal(text, &said) != nil || said.Status != "success" {
		t.Fatalf("%s: %s", expr, text)
	}
	return len(said.Data.Result)
}

// Whatever the dashboard and the alerts ask for is there, in a real Prometheus that scrapes a real authz.
func TestTheDashboardShowsWhatReallyExists(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--redis="+r.URL(), "--redis-timeout=20s", "--limits="+rig.LimitsFile(t, rig.UndoLimits))
	p := startPrometheus(t, a.Admin)
	metrics := a.Metrics(t, "# TYPE ")
	check := exec.Command("promtool", "check", "metrics")
	_, text := a.Get(t, "/metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}

	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	file, err := os.ReadFile("../deploy/grafana/authz.json")
	if err == nil {
		err = json.Unmarshal(file, &dashboard)
	}
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := os.ReadFile("../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`authz_\w+`).FindAllString(regexp.MustCompile(`authz_\w+\.conf`).ReplaceAllString(string(file)+string(alerts), ""), -1) {
		family := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if !strings.Contains(metrics, "# TYPE "+name+" ") && !strings.Contains(metrics, "# TYPE "+family+" histogram") {
			t.Errorf("%s is asked for, and is not among the metrics", name)
		}
	}

	ask := a.Checker()
	variables := strings.NewReplacer("$job", "authz", "$instance", ".*", "$limit", ".*", "$__rate_interval", "1m")
	quiet := []string{"Shadow limits would refuse", "Store errors", "Degraded answers", "Blocked, and why"} // nothing of the kind happens
	n := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			n++
			expr := variables.Replace(target.Expr)
			if p.query(t, expr); slices.Contains(quiet, panel.Title) {
				continue
			}
			rig.Await(t, panel.Title, func() bool {
				for _, path := range []string{"/login", "/plan"} {
					ask.Check(t, "GET "+path, []string{"X-API-Key: k1"})
				}
				return p.query(t, expr) > 0
			})
		}
	}
	if n < 20 {
		t.Errorf("%d queries, want those of all panels", n)
	}
	for _, expr := range submatches(t, "../deploy/prometheus/alerts.yml", `(?m)expr: ([^|\n]+)$`) {
		p.query(t, expr)
	}
}
