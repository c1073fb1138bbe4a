package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authz/internal/replay/accesslog"
	"authz/limits"
	"authz/nginx"
)

// Each folder of vectors/replay is a log and what is said of it: want.txt to people, want.json to programs.
// format.txt or nginx.conf is its format, against.toml what limits.toml is compared with, suggest.txt the
// share and the headroom. The page says all that the text says.
func TestALogGivesExactlyThisReport(t *testing.T) {
	folders, err := filepath.Glob("../../tests/vectors/replay/*")
	if err != nil || len(folders) < 9 {
		t.Fatalf("%d folders of vectors, want at least 9 (%v)", len(folders), err)
	}
	for _, folder := range folders {
		v := vectorFolder{t, folder}
		r := v.run()
		var text, coded bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Error(err)
		}
		v.compare("want.txt", text.String())
		v.onPage(text.String(), pageOf(t, r))
		encoder := json.NewEncoder(&coded)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r); err != nil {
			t.Error(err)
		}
		if v.read("want.json") != "" {
			v.compare("want.json", coded.String())
		}
	}
}

type vectorFolder struct {
	*testing.T
	path string
}

// read is a file of the folder, empty if there is none.
func (v vectorFolder) read(name string) string {
	v.Helper()
	text, err := os.ReadFile(filepath.Join(v.path, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.Fatal(err)
	}
	return string(text)
}

func (v vectorFolder) run() *Report {
	v.Helper()
	o := Options{ReorderUS: 5e6}
	must := func(err error) {
		v.Helper()
		if err != nil {
			v.Fatalf("%s: %v", v.path, err)
		}
	}
	var err error
	o.Limits, err = limits.Load("authz", filepath.Join(v.path, "limits.toml"))
	must(err)
	if v.read("against.toml") != "" {
		o.Against, err = limits.Load("authz", filepath.Join(v.path, "against.toml"))
		must(err)
	}
	if text := v.read("format.txt"); text != "" {
		o.Format, err = accesslog.ParseFormat(strings.TrimSuffix(text, "\n"))
		must(err)
	}
	if text := v.read("nginx.conf"); text != "" {
		conf, bad := nginx.Parse("nginx.conf", text)
		must(bad)
		o.Format, err = accesslog.FormatFrom(conf, "")
		must(err)
	}
	if text := v.read("suggest.txt"); text != "" {
		o.Suggest = new(Suggest)
		keys, headroom, _ := strings.Cut(strings.TrimSpace(text), " ")
		must(o.Suggest.Keys.UnmarshalText([]byte(keys)))
		must(o.Suggest.Headroom.UnmarshalText([]byte(headroom)))
	}
	r, err := Run(o, []Log{{"access.log", strings.NewReader(v.read("access.log"))}})
	must(err)
	return r
}

func (v vectorFolder) compare(name, got string) {
	v.Helper()
	if want := v.read(name); got != want {
		v.Errorf("%s/%s: got\n%s\nwant\n%s", v.path, name, got, want)
	}
}

var (
	styles = regexp.MustCompile(`(?s)<(style|svg).*?</(style|svg)>`)
	inline = regexp.MustCompile(`</?(code|a)\b[^>]*>`)
	tags   = regexp.MustCompile(`<[^>]*>`)
)

// onPage finds each line of the text on the page: what is between the tags is the same words.
func (v vectorFolder) onPage(text, page string) {
	v.Helper()
	page = html.UnescapeString(tags.ReplaceAllString(inline.ReplaceAllString(styles.ReplaceAllString(page, " "), ""), " "))
	words := strings.Join(strings.Fields(page), " ")
	for line := range strings.Lines(text) {
		if line := strings.Join(strings.Fields(line), " "); !strings.Contains(words, line) {
			v.Errorf("%s: not on the page: %q; it says\n%s", v.path, line, words)
		}
	}
}
