package accesslog

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authz/nginx"
)

func TestAFormatThatCannotBeReadIsNamedWithWhatWouldBe(t *testing.T) {
	check := func(text, want string) {
		t.Helper()
		got := "good"
		if _, err := ParseFormat(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
	}
	check("combined", "good")
	check("common", "good")
	check("json", "good")
	check("ltsv", "good")
	check("$msec ${remote_addr}x $request", "good")
	check("combind", `"combind", want combined, common, json, ltsv, or the text of a log_format, such as '$remote_addr [$time_local] "$request"'`)
	check("$msec $remote_addr$request", `"$msec $remote_addr$request": nothing stands between $remote_addr and the next variable, want some text that tells them apart`)
	check("$msec $ $request", `"$msec $ $request": a $ without a name, want a variable such as $remote_addr or ${remote_addr}`)
	check("$msec ${request", `"$msec ${request": a $ without a name, want a variable such as $remote_addr or ${remote_addr}`)
	check("$request", `"$request": no variable says when, want $msec (the most exact), $time_iso8601 or $time_local`)
	check("$msec $remote_addr", `"$msec $remote_addr": no variable says what was asked for, want $request, $request_uri or $uri`)
}

const conf = `
# log_format old '$request';
http {
	log_format main escape=default '$remote_addr - "$request" ' "at=$msec"; # the first
	log_format plain escape=none $msec\ ${request}end;
	log_format "coded" escape=json '{"time":"$time_iso8601","to":"$request_uri","quote":"\""}';
	log_format short '$status';
	access_log logs/access.log main;
}
`

// Directives are those of a text, as far as it can be read.
func directives(text string) []*nginx.Directive {
	all, _ := nginx.Parse("nginx.conf", text)
	return all
}

func TestALogFormatIsTakenOutOfAnNginxConf(t *testing.T) {
	check := func(text, name, want string) {
		t.Helper()
		f, err := FormatFrom(directives(text), name)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(f.name, " ", f.raw, " ", f.head)
			for _, p := range f.parts {
				got += "<" + p.variable + ">" + p.after
			}
		}
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	check(conf, "main", `main false <remote_addr> - "<request>" at=<msec>`)
	check(conf, "plain", `plain true <msec>\ <request>end`)
	check(conf, "coded", `coded false {"time":"<time_iso8601>","to":"<request_uri>","quote":"""}`)
	check(conf, "old", "no log_format old in it, want one of: main, plain, coded, short")
	check(conf, "", "4 log_formats in it, want one by its name: main, plain, coded, short")
	check(conf, "short", `log_format short: "$status": no variable says when, want $msec (the most exact), $time_iso8601 or $time_local`)
	check("http { server { } }", "", "no log_format in it, want the file that has it")
	check("log_format a '$msec $uri';", "", "a false <msec> <uri>")
}

func TestTheFormatOfALogIsThatOfMostOfItsFirstLines(t *testing.T) {
	check := func(want string, lines ...string) {
		t.Helper()
		got := "none"
		if f := Detect([]byte(strings.Join(lines, "\n")+"\n"), NewFieldNames(nil)); f != nil {
			got = f.name
		}
		if got != want {
			t.Errorf("%q: got\n%s\nwant\n%s", lines, got, want)
		}
	}
	const common = `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 612`
	const scanner = `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03\x01\x00" 400 0 "-" "-"`
	check("combined", common+` "-" "curl/8.5.0"`)
	check("combined", common+` "-" "curl/8.5.0" limit_req=PASSED rt=0.003`)
	check("combined", "junk", scanner, common+` "-" "a \"quoted\" agent"`)
	check("combined", scanner)
	check("combined", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "GET /\x00 HTTP/1.1" 400 0 "-" "-"`)
	check("combined", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "-" 400 0 "-" "-"`)
	check("common", common)
	check("json", `{"ts":1791640536,"uri":"/"}`)
	check("ltsv", "time:2026-10-10T13:55:36Z\turi:/")
	check("none", "2026/10/10 13:55:36 [error] 7#7: *1 open() failed", `{"level":"info"}`, "a:b")
}

func TestChoosingNamesEveryField(t *testing.T) {
	page, err := os.ReadFile("../../../docs/choosing.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string][]Place{"the time": {placeMsec, placeISO, placeLocal, placeTime}, "the address": {PlaceAddress},
		"the request line": {PlaceRequest}, "the method": {PlaceMethod}, "the target, as the client sent it": {PlaceTarget},
		"the path, as nginx's `$uri`": {placeURI}, "the query": {PlaceQuery}, "the host": {PlaceHost, PlaceHTTPHost, PlaceServerName},
		"the zone": {PlaceZone}, "all cookies": {PlaceCookie}, "what `limit_req` said, to compare": {PlaceLimitReq}}
	_, table, _ := strings.Cut(string(page), "| part of the request |")
	told := map[string]bool{}
	for _, row := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(row, " | ")
		if len(cells) != 2 {
			break
		}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			told[name[1]] = true
			if at, ok := known[name[1]]; !ok || !slices.Contains(parts[strings.TrimPrefix(cells[0], "| ")], at) {
				t.Errorf("%s: is no field of this part", row)
			}
		}
	}
	for name := range known {
		if !told[name] {
			t.Errorf("%s is not there", name)
		}
	}
}
