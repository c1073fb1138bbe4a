package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authz/tests/rig"
)

var timesToCome = regexp.MustCompile(`in \d[\d.hmµs]*`)

// The commands of docs/operating.md print what it shows, but for times, run from its top to its end in one folder.
func TestTheCommandsOfOperatingPrintWhatItShows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shape := func(text string) string {
		return strings.TrimSpace(timesToCome.ReplaceAllString(text, "in T"))
	}
	var serving *rig.AuthzServer
	ran := 0
	for _, m := range regexp.MustCompile("(?s)```(toml|sh|console)\n(.*?)```").FindAllStringSubmatch(rig.ReadText(t, "../docs/operating.md"), -1) {
		ran++
		switch kind, block := m[1], m[2]; {
		case kind == "toml":
			rig.ReplaceFile(t, filepath.Join(dir, "limits.toml"), block)
		case strings.HasPrefix(block, "authz serve "):
			at := strings.NewReplacer("limits limits.toml", "limits "+dir+"/limits.toml", "file token", "file "+dir+"/token").Replace(strings.TrimPrefix(block, "authz serve "))
			serving = rig.StartAuthz(t, strings.Fields(regexp.MustCompile(`(--\S+) `).ReplaceAllString(at, "$1="))...)
		case kind == "sh":
			compareRun(t, dir, serving, strings.TrimSpace(block), "", strings.TrimSpace)
		default:
			command, want, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
			if strings.Contains(want, "by an override") { // as soon as the file is read
				serving.Await(t, "limits reloaded")
			}
			compareRun(t, dir, serving, command, want, shape)
		}
	}
	if ran != 12 {
		t.Errorf("ran %d blocks, want 12", ran)
	}
	for _, line := range []string{`msg=refused limit=login key="ip=203.0.113.66" status=429 retry_after=`, `msg="bucket reset" limit=login key="ip=198.51.100.20"`} {
		if !strings.Contains(serving.Logged(), line) {
			t.Errorf("the log lacks %s", line)
		}
	}
	serving.Stop(t)
	if want := `msg="refused again" limit=login key="ip=203.0.113.66" times=34 within=`; !strings.Contains(serving.Logged(), want) {
		t.Errorf("the log lacks %s", want)
	}
}
