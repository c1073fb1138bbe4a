package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authz/internal/replay"
	"authz/internal/testkit"
)

const accessLog = `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "POST /login HTTP/1.1" 200 612 "-" "curl/8.5.0"
203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "POST /login HTTP/1.1" 200 612 "-" "curl/8.5.0"
203.0.113.9 - - [10/Oct/2026:13:55:37 +0000] "POST /login HTTP/1.1" 200 612 "-" "curl/8.5.0"
203.0.113.9 - - [10/Oct/2026:13:55:38 +0000] "POST /login HTTP/1.1" 200 612 "-" "curl/8.5.0"
203.0.113.9 - - [10/Oct/2026:13:55:39 +0000] "POST /login HTTP/1.1" 200 612 "-" "curl/8.5.0"
203.0.113.9 - - [10/Oct/2026:13:55:40 +0000] "POST /login HTTP/1.1" 200 612 "-" "curl/8.5.0"
`

const accessReport = `from 2026-10-10T13:55:36Z to 2026-10-10T13:55:40Z
times are whole seconds: what came in one second counts as one instant, which is harder on buckets and on windows below a second ($msec is exact)

admitted 5, of which no rule meets 0; limited (429) 1; blocked (403) 0

rule         requests  refused     share  keys  first refusal
limit.login         6        1  16.6666%     1  2026-10-10T13:55:40Z

limit.login: sliding_window, 5/m
                                                  requests  refused
  busiest second            2026-10-10T13:55:36Z         2        0
  busiest minute            2026-10-10T13:55:00Z         6        1
  most refused in a second  2026-10-10T13:55:40Z         1        1
  most refused in a minute  2026-10-10T13:55:00Z         6        1
  busiest keys    requests  refused
  ip=203.0.113.9         6        1
  most refused keys  requests  refused
  ip=203.0.113.9            6        1
`

func TestReplayReadsFilesAndItsInput(t *testing.T) {
	limits, plain := testkit.WriteFile(t, "limits.toml", login), testkit.WriteFile(t, "access.log", accessLog)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	w.Write([]byte(accessLog))
	w.Close()
	packed := testkit.WriteFile(t, "access.log.gz", zipped.String())
	check := func(in, want string, args ...string) {
		t.Helper()
		if got := command(t, "", in, append([]string{"replay", "--limits", limits}, args...)...); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
		}
	}
	const lines = ": 6 lines, 6 requests in the format combined\n"
	const damaged = "- is damaged, and this report ends before its end: nothing from line 7 on was read; want a gzip that gzip -t finds whole"
	check("", "exit 0\n"+plain+lines+accessReport, plain)
	check("", "exit 0\n"+packed+lines+accessReport, packed)
	check(accessLog, "exit 0\n-"+lines+accessReport, "-")
	check(zipped.String()[:zipped.Len()-8], "exit 0\nWARNING: "+damaged+"\n-"+lines+"  left out: gzip is damaged, from line 7 on\n"+accessReport+"authz: WARNING: "+damaged+"\n", "-")
	check(zipped.String()[:12], "exit 1\nauthz: -: gzip is damaged before its first line ends: unexpected EOF, want a whole file (gzip -t tells) or a plain one\n", "-")
	check(zipped.String(), "exit 0\n-"+lines+accessReport, "-", "--format=combined")
	conf := testkit.WriteFile(t, "nginx.conf", `log_format main '$remote_addr - - [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent"'; log_format b '$msec $uri';`)
	check("", "exit 0\n"+plain+": 6 lines, 6 requests in the format main\n"+accessReport, plain, "--format-from", conf+":main")
	check("", "exit 1\nauthz: --format-from: "+conf+": 2 log_formats in it, want one by its name: main, b\n", plain, "--format-from", conf)
	check("", "exit 1\nauthz: --format-from: "+conf+": no log_format c in it, want one of: main, b\n", plain, "--format-from", conf+":c")
	check("", "exit 1\nauthz: open "+plain+".1: no such file or directory\n", plain+".1")
	check("", "exit 1\nauthz: "+filepath.Dir(plain)+": a folder, want an access log\n", filepath.Dir(plain))
	empty := testkit.WriteFile(t, "empty.toml", "")
	check("", "exit 1\n"+empty+": no rules, want at least one [limit.NAME], [allow.NAME] or [deny.NAME]\n", plain, "--against", empty)
}

// The report may go to a file or a program: that it is wrong is said on stderr, too.
func TestReplayWarnsOfALogThatIsNotInOrder(t *testing.T) {
	lines := strings.SplitAfter(strings.TrimSuffix(accessLog, "\n"), "\n")
	slices.Reverse(lines)
	limits, log := testkit.WriteFile(t, "limits.toml", login), testkit.WriteFile(t, "access.log", strings.Join(lines[:1], "")+"\n"+strings.Join(lines[1:], ""))
	c := &console{strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer)}
	code := run([]string{"replay", "--limits", limits, "--reorder=0s", "--json", log}, c)
	want := "authz: WARNING: " + log + " is not in the order of time, and this report is wrong: 4 requests of 6 come after later ones; want the oldest line first: tac turns a log around that has the newest first, sort puts others in order, and logs that are given as files of their own are merged by their times\n"
	if got := c.err.(*bytes.Buffer).String(); code != 0 || got != want {
		t.Errorf("exit %d\n%s\nwant 0 and\n%s", code, got, want)
	}
}

func TestReplayWritesJSONOrAPage(t *testing.T) {
	limits, log := testkit.WriteFile(t, "limits.toml", login), testkit.WriteFile(t, "access.log", accessLog)
	dir := filepath.Dir(log)
	text := strings.TrimPrefix(command(t, "", "", "replay", "--limits", limits, "--json", "--suggest=1%", "--headroom=20%", log), "exit 0\n")
	var report struct {
		Policy struct {
			Limits []struct {
				Refused     int64
				Share       float64 `json:"refused_share"`
				Suggestions []replay.Suggestion
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if l := report.Policy.Limits[0]; l.Refused != 1 || l.Share != 0.166666 || l.Suggestions[3].Rate != "8/m" || l.Suggestions[3].Smallest != 6 {
		t.Errorf("%+v, want 1 refused, and 6/m to be enough", l)
	}
	page := filepath.Join(dir, "report.html")
	if got := command(t, dir, "", "replay", "--limits", limits, "--html", page, log); got != "exit 0\n/access.log: 6 lines, 6 requests in the format combined\n"+accessReport {
		t.Errorf("got\n%s", got)
	}
	written, err := os.ReadFile(page)
	if err != nil || !bytes.HasPrefix(written, []byte("<!doctype html>")) || !bytes.HasSuffix(written, []byte("</html>\n")) {
		t.Errorf("%v, want a page:\n%s", err, written)
	}
}

func TestReplayNamesAFlagThatIsWrong(t *testing.T) {
	limits, log := testkit.WriteFile(t, "limits.toml", login), testkit.WriteFile(t, "access.log", accessLog)
	check := func(want string, args ...string) {
		t.Helper()
		if got := command(t, "", "", append([]string{"replay", "--limits", limits}, args...)...); got != "exit 2\nauthz: "+want+"; see authz replay --help\n" {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
		}
	}
	check(`expected "<access_log> ..."`)
	check(`replay: --format: "combind", want combined, common, json, ltsv, or the text of a log_format, such as '$remote_addr [$time_local] "$request"'`, log, "--format=combind")
	check(`replay: --format and --format-from: want one of them`, log, "--format=json", "--format-from=nginx.conf")
	check(`replay: --reorder=-1s: want a time, such as 5s, or 0s`, log, "--reorder=-1s")
	check(`replay: --suggest=100.1%: want 0% to 100%`, log, "--suggest=100.1%")
	check(`--suggest: "1", want a percentage with 4 digits after the point at most, such as 0.1%`, log, "--suggest=1")
	check(`replay: --headroom: want --suggest with it`, log, "--headroom=20%")
	check(`replay: `+log+`: named twice, want each log once`, log, log)
	check(`--json and --html can't be used together`, log, "--json", "--html=x.html")
}

func TestABarShowsHowMuchHasBeenRead(t *testing.T) {
	check := func(read, total int64, want string) {
		t.Helper()
		p := &progress{total: total}
		p.read.Store(read)
		if got := p.bar(); got != want {
			t.Errorf("%d of %d: got\n%s\nwant\n%s", read, total, got, want)
		}
	}
	check(0, 200e6, "[                              ]   0%  0 of 200 MB")
	check(100e6, 200e6, "[###############               ]  50%  100 of 200 MB")
	check(200e6, 200e6, "[##############################] 100%  200 of 200 MB")
	check(300e6, 200e6, "[##############################] 100%  300 of 200 MB") // a log that is being written
	check(300e6, -1, "300 MB read")
}

func TestOneSizeThatNobodyKnowsMakesTheTotalUnknown(t *testing.T) {
	check := func(want int64, sizes ...int64) {
		t.Helper()
		p := new(progress)
		for _, size := range sizes {
			p.of(nil, size)
		}
		if p.total != want {
			t.Errorf("%v: a total of %d, want %d", sizes, p.total, want)
		}
	}
	check(5e9, 2e9, 3e9)
	check(-1, 0)
	check(-1, 2e9, 0)
	check(-1, 0, 2e9)
}

// A log_format may stand in a file that nginx.conf includes; without those files that of nginx.conf itself is enough.
func TestALogFormatIsFoundInAFileThatIsIncluded(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file, log := testkit.WriteFile(t, "limits.toml", login), put("times.log", "1791640536 203.0.113.9 /login\n")
	const format = "log_format times '$msec $remote_addr $request_uri';"
	check := func(want, conf string) {
		t.Helper()
		got := command(t, dir+"/", "", "replay", "--limits="+file, "--format-from="+put("nginx.conf", conf)+":times", log)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", conf, got, want)
		}
	}
	put("conf.d/log.conf", format)
	const found = "exit 0\ntimes.log: 1 line, 1 request in the format times\n"
	check(found, "http { include conf.d/*.conf; }")
	check(found, "http { include nowhere.conf; "+format+" }")
	check("exit 1\nauthz: --format-from: nginx.conf: no log_format in it, want the file that has it\n", "http { include nowhere.conf; }")
}

// A FILE that was forgotten must not cost a log.
func TestAReportOverwritesNothingButAReport(t *testing.T) {
	dir := t.TempDir()
	file := testkit.WriteFile(t, "limits.toml", login)
	log := filepath.Join(dir, "access.log")
	text := `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "POST /login HTTP/1.1" 200 5 "-" "curl"` + "\n"
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(log, text)
	check := func(want, html string) {
		t.Helper()
		if got := command(t, dir+"/", "", "replay", "--limits="+file, "--html="+html, log); !strings.HasPrefix(got, want) {
			t.Errorf("--html=%s: got\n%s\nwant\n%s", html, got, want)
		}
	}
	const there = ": this file is there, and no report of authz replay: want another name\n"
	check("exit 1\nauthz: --html=access.log"+there, log)
	check("exit 1\nauthz: --html="+file+there, file)
	check("exit 1\nauthz: --html=-: want a file\n", "-")
	check("exit 1\nauthz: --html=none/x.html: there is no folder none, want one that exists\n", dir+"/none/x.html")
	check("exit 0\n", dir+"/report.html")
	check("exit 0\n", dir+"/report.html") // again
	if left, err := os.ReadFile(log); err != nil || string(left) != text {
		t.Errorf("the log is %q, %v", left, err)
	}

	// Nor is a log left out that another format is given for, or one read whose addresses are none.
	other := filepath.Join(dir, "other.log")
	put(other, "1791640536 203.0.113.9 /login\n")
	if got := command(t, dir+"/", "", "replay", "--limits="+file, "--format=$msec $remote_addr $request_uri", other, log); !strings.HasPrefix(got,
		"exit 1\nauthz: access.log: none of 1 lines is a request in the format $msec $remote_addr $request_uri: ") {
		t.Error(got)
	}
	put(other, "www.shop.test:443 "+text)
	if got := command(t, dir+"/", "", "replay", "--limits="+file, other); !strings.Contains(got, "\nauthz: WARNING: no request has an address that can be read, ") &&
		!strings.HasPrefix(got, "exit 1\nauthz: other.log: none of the first 1 lines is combined") {
		t.Error(got)
	}
}
