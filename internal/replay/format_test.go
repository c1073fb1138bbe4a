package replay

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

// directives are those of a text, as far as it can be read.
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
		if f := detect([]byte(strings.Join(lines, "\n")+"\n"), newFieldNames(nil)); f != nil {
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

// Whatever scanners have sent first, and as much of it as they like.
func TestJunkAtTheTopHidesNoFormat(t *testing.T) {
	const good = `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 612 "-" "-"` + "\n"
	check := func(want, junk string) {
		t.Helper()
		r, err := Run(Options{Limits: loadText(t, total)}, []Log{{"access.log", strings.NewReader(junk + good)}})
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(r.Logs[0])
		}
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	check("{access.log combined 10001 1 0 0 [{not HTTP 10000 1}]}", strings.Repeat(`203.0.113.9 - - [10/Oct/2026:13:55:35 +0000] "\x16\x03\x01\x00" 400 0 "-" "-"`+"\n", 10_000))
	check("{access.log combined 101 1 0 0 [{not in this format 100 1}]}", strings.Repeat("junk\n", 100))
	check("{access.log combined 4 1 0 0 [{longer than 1 MiB 3 1}]}", strings.Repeat(strings.Repeat("x", 2<<20)+"\n", 3))
}

// The first line may be a secret, and the error goes to a terminal or to the log of a job.
func TestALogInNoKnownFormatIsNamedAndNotQuoted(t *testing.T) {
	_, err := Run(Options{Limits: loadText(t, total)}, []Log{{"access.log", strings.NewReader("a secret\x1b[2J\n\nb")}})
	const want = "access.log: none of the first 3 lines is combined, common, json or ltsv, want --format with the text of its log_format, or --format-from with the nginx.conf that has it"
	if fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestChoosingNamesEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/choosing.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string][]place{"the time": {placeMsec, placeISO, placeLocal, placeTime}, "the address": {placeAddress},
		"the request line": {placeRequest}, "the method": {placeMethod}, "the target, as the client sent it": {placeTarget},
		"the path, as nginx's `$uri`": {placeURI}, "the query": {placeQuery}, "the host": {placeHost, placeHTTPHost, placeServerName},
		"the zone": {placeZone}, "all cookies": {placeCookie}, "what `limit_req` said, to compare": {placeLimitReq}}
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
