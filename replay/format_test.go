package replay

import (
	"fmt"
	"strings"
	"testing"
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

func TestALogFormatIsTakenOutOfAnNginxConf(t *testing.T) {
	check := func(text, name, want string) {
		t.Helper()
		f, err := FormatFrom(text, name)
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
	check(conf, "plain", `plain true <msec> <request>end`)
	check(conf, "coded", `coded false {"time":"<time_iso8601>","to":"<request_uri>","quote":"""}`)
	check(conf, "old", "no log_format old in it, want one of: main, plain, coded, short")
	check(conf, "", "4 log_formats in it, want one by its name: main, plain, coded, short")
	check(conf, "short", `log_format short: "$status": no variable says when, want $msec (the most exact), $time_iso8601 or $time_local`)
	check("http { server { } }", "", "no log_format in it, want the file that has it (included files are not read)")
	check("log_format a '$msec $uri';", "", "a false <msec> <uri>")
}

func TestTheFormatOfALogIsThatOfItsFirstGoodLines(t *testing.T) {
	check := func(want string, lines ...string) {
		t.Helper()
		f, err := detect("access.log", []byte(strings.Join(lines, "\n")+"\n"), newFieldNames(nil))
		got := fmt.Sprint(err)
		if err == nil {
			got = f.name
		}
		if got != want {
			t.Errorf("%q: got\n%s\nwant\n%s", lines, got, want)
		}
	}
	const common = `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 612`
	check("combined", common+` "-" "curl/8.5.0"`)
	check("combined", common+` "-" "curl/8.5.0" limit_req=PASSED rt=0.003`)
	check("combined", "junk", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03" 400 0 "-" "-"`, common+` "-" "a \"quoted\" agent"`)
	check("common", common)
	check("json", `{"ts":1791640536,"uri":"/"}`)
	check("ltsv", "time:2026-10-10T13:55:36Z\turi:/")
	check(`access.log: none of the first lines is combined, common, json or ltsv, want --format with the text of its log_format, or --format-from with the nginx.conf that has it; the first line is "a b\x1b[2J"`,
		"a b\x1b[2J")
}
