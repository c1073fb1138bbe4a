package docs

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors are the rooms, from the ground up: each imports from lower floors only.
var floors = [][]string{
	{"limits", "redisscripts", "nginx", "internal/human", "internal/monotonic", "internal/header", "internal/buildinfo", "internal/plainjson"},
	{"internal/route", "internal/testkit"},
	{"internal/store", "internal/explain", "nginx/lint", "nginx/snippet"},
	{"internal/store/redisstore", "internal/decision", "internal/replay/accesslog"},
	{"internal/replay", "internal/doctor", "internal/prove", "internal/toptalkers"},
	{"internal/service"},
	{"internal/admin"},
	{"cmd/authz"},
	{"tests/rig"},
	{"tests/nginx", "tests/openresty", "tests/redis", "tests/service", "tests/prove", "tests/faults", "tests/docs", "tests/install"},
}

// modules are what the rooms import that is not ours, with all that is in them.
var modules = map[string][]string{
	"limits":                    {"github.com/BurntSushi/toml"},
	"internal/store/redisstore": {"github.com/redis/go-redis/v9", "github.com/sony/gobreaker/v2"},
	"internal/prove":            {"github.com/valyala/fasthttp"},
	"internal/service":          {"github.com/valyala/fasthttp", "github.com/prometheus/client_golang", "github.com/prometheus/client_model", "github.com/fsnotify/fsnotify"},
	"internal/admin":            {"github.com/prometheus/client_golang"},
	"cmd/authz":                 {"github.com/alecthomas/kong", "github.com/alecthomas/mango-kong", "github.com/muesli/roff"},
	"tests":                     {"github.com/redis/go-redis/v9", "github.com/Shopify/toxiproxy/v2", "github.com/rs/zerolog", "go.yaml.in/yaml/v3", "github.com/chromedp"}, // of all its rooms
}

// floorOf is -1 for what is no room.
func floorOf(room string) int {
	return slices.IndexFunc(floors, func(rooms []string) bool { return slices.Contains(rooms, room) })
}

func TestNoArrowRunsUp(t *testing.T) {
	eachFile(t, func(name string, _ []byte) {
		if path.Ext(name) != ".go" || strings.HasPrefix(name, "tests/bench/") {
			return
		}
		room := path.Dir(name)
		floor := floorOf(room)
		if floor < 0 {
			t.Errorf("%s: not a room, want one of %v", name, floors)
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, imp := range file.Imports {
			got, _ := strconv.Unquote(imp.Path.Value)
			first, rest, _ := strings.Cut(got, "/")
			if at := floorOf(rest); first == "authz" && rest != room && (at < 0 || at >= floor) {
				t.Errorf("%s imports %s, want only rooms of floors below %d", name, got, floor)
			}
			covers := func(module string) bool { return got == module || strings.HasPrefix(got, module+"/") }
			mayImport := modules[room]
			if strings.HasPrefix(room, "tests/") {
				mayImport = modules["tests"]
			}
			if strings.Contains(first, ".") && !slices.ContainsFunc(mayImport, covers) {
				t.Errorf("%s imports %s, want only %v", name, got, mayImport)
			}
		}
	})
}

func TestNoFileOutgrows400Lines(t *testing.T) {
	eachFile(t, func(name string, text []byte) {
		ext := path.Ext(name)
		if ext != ".go" && ext != ".lua" || strings.HasPrefix(name, "redisscripts/v1/") {
			return
		}
		if lines := bytes.Count(text, []byte("\n")); lines > 400 {
			t.Errorf("%s has %d lines, want at most 400", name, lines)
		}
	})
}

// A room that outgrows this is two.
func TestNoRoomOutgrowsItsFloor(t *testing.T) {
	lines := map[string]int{}
	eachFile(t, func(name string, text []byte) {
		if path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") && !bytes.HasPrefix(text, []byte("//go:build ignore")) {
			lines[path.Dir(name)] += bytes.Count(text, []byte("\n"))
		}
	})
	for room, n := range lines {
		most := 3000
		switch room {
		case "cmd/authz":
			most = 1500
		case "limits": // one idea behind a small door
			most = 5100
		case "tests/rig", "tests/bench":
			most = 4500
		}
		if n > most {
			t.Errorf("%s has %d lines, want %d at most", room, n, most)
		}
	}
}

func TestNoNameSaysNothing(t *testing.T) {
	eachFile(t, func(name string, _ []byte) {
		for _, word := range []string{"util", "common", "helper"} {
			if strings.Contains(strings.ToLower(name), word) {
				t.Errorf("%s has %q in its name, want a name that says what is in it", name, word)
			}
		}
	})
}

func TestNoFileIsHalfMerged(t *testing.T) {
	eachFile(t, func(name string, text []byte) {
		for i, line := range bytes.Split(text, []byte("\n")) {
			for _, mark := range []string{"<<<<<<< ", ">>>>>>> "} {
				if bytes.HasPrefix(line, []byte(mark)) {
					t.Errorf("%s:%d: %q, want one or the other", name, i+1, line)
				}
			}
		}
	})
}

// eachFile calls f with every file of the project: its name from the top, with slashes, and its text.
func eachFile(t *testing.T, f func(name string, text []byte)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		files++
		f(filepath.ToSlash(strings.TrimPrefix(p, ".."+string(filepath.Separator))), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("read %d files, want the whole project", files)
	}
}
