package replay

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"authz/internal/replay/accesslog"
	"authz/internal/testkit"
)

// total is one bucket of 3 for everybody, and a watched one by address.
const total = `
	[limit.total]
	key       = []
	algorithm = "sliding_window"
	rate      = "3/10s"
	[limit.each]
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "1/m"
	mode      = "shadow"`

// replayText replays logs in the format "$msec $remote_addr $request_uri".
func replayText(t testing.TB, toml string, logs ...string) (*Report, error) {
	t.Helper()
	var all []Log
	for i, text := range logs {
		all = append(all, Log{fmt.Sprint("log", i+1), strings.NewReader(text)})
	}
	return replayLogs(t, toml, all...)
}

func replayLogs(t testing.TB, toml string, logs ...Log) (*Report, error) {
	t.Helper()
	format, err := accesslog.ParseFormat("$msec $remote_addr $request_uri")
	if err != nil {
		t.Fatal(err)
	}
	return Run(Options{Limits: testkit.Limits(t, toml), Format: format, ReorderUS: 5e6}, logs)
}

// coded is a report as JSON without the names of the logs.
func coded(t testing.TB, r *Report) string {
	t.Helper()
	for i := range r.Logs {
		r.Logs[i].Name = ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Chunks end where they may: the report does not know where.
func TestALogIsTheSameHoweverItIsRead(t *testing.T) {
	var b strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&b, "%d.%03d 203.0.113.%d /%s\r\n", 1791640536+i/50, i%1000, i%7, strings.Repeat("x", i%97))
	}
	text := strings.TrimSuffix(b.String(), "\r\n") // the last line does not end
	want := func() string {
		r, err := replayText(t, total, text)
		if err != nil {
			t.Fatal(err)
		}
		if r.Logs[0].Lines != 20000 || r.Requests != 20000 {
			t.Fatalf("%+v, want 20000 lines", r.Logs[0])
		}
		return coded(t, r)
	}()
	check := func(what string, from io.Reader) {
		t.Helper()
		r, err := replayLogs(t, total, Log{what, from})
		if err != nil {
			t.Fatal(err)
		}
		if got := coded(t, r); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	}
	check("halves", iotest.HalfReader(strings.NewReader(text)))
	check("the end with the data", iotest.DataErrReader(strings.NewReader(text)))
	check("gzip", strings.NewReader(zipped(t, text)))
	check("gzip in two members", strings.NewReader(zipped(t, text[:100_000])+zipped(t, text[100_000:])))
	check("bytes", iotest.OneByteReader(strings.NewReader(text)))
}

func TestALineThatIsTooLongIsLeftOutAndEndsNothing(t *testing.T) {
	long := "1791640536 203.0.113.9 /" + strings.Repeat("x", 3<<20)
	r, err := replayText(t, total, long+"\n1791640537 203.0.113.9 /\n"+long+"\n"+long+"\n1791640538 203.0.113.9 /\n"+long)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(r.Logs[0]), "{log1 $msec $remote_addr $request_uri 6 2 0 0 [{longer than 1 MiB 4 1}]}"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestALogThatCannotBeReadIsNamed(t *testing.T) {
	check := func(want string, logs ...Log) {
		t.Helper()
		if _, err := replayLogs(t, total, logs...); err == nil || err.Error() != want {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
	}
	good := Log{"good.log", strings.NewReader(strings.Repeat("1791640536 203.0.113.9 /\n", 50_000))}
	check("bad.log: the disk is gone", good, Log{"bad.log", iotest.ErrReader(errors.New("the disk is gone"))})
	check("bad.gz: the disk is gone", Log{"bad.gz", io.MultiReader(strings.NewReader(zipped(t, "1791640536 203.0.113.9 /\n")[:20]), iotest.ErrReader(errors.New("the disk is gone")))})
	check("bad.gz: gzip is damaged before its first line ends: unexpected EOF, want a whole file (gzip -t tells) or a plain one", Log{"bad.gz", strings.NewReader(zipped(t, "1791640536 203.0.113.9 /\n")[:20])})
	check("bad.gz: gzip is damaged before its first line ends: gzip: invalid header, want a whole file (gzip -t tells) or a plain one", Log{"bad.gz", strings.NewReader("\x1f\x8bGET / HTTP/1.1 and so on")})
	check("a.log: no lines, want an access log", Log{"a.log", strings.NewReader("")})
	check("a.log: none of 2 lines is a request in the format $msec $remote_addr $request_uri: 1 not in this format (the first in line 2), 1 a target that nginx answers with 400 (the first in line 1)",
		Log{"a.log", strings.NewReader("1791640536 203.0.113.9 x\n\n")})
}

// All lines before the damage count. One that the damage may be in is none.
func TestADamagedGzipIsReadUpToItsDamage(t *testing.T) {
	check := func(what, want, file string) {
		t.Helper()
		r, err := replayLogs(t, total, Log{"a.gz", strings.NewReader(file)}, Log{"good.log", strings.NewReader("1791640536 203.0.113.9 /\n")})
		if err != nil {
			t.Fatal(err)
		}
		l := r.Logs[0]
		if got := fmt.Sprint(l.Lines, l.Requests, l.notes()); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	}
	const three = "1791640536 203.0.113.9 /1\n1791640537 203.0.113.9 /2\n1791640538 203.0.113.9 /3\n"
	whole := zipped(t, three)
	const after = "3 3 [left out: gzip is damaged, from line 4 on]"
	check("cut off", after, whole[:len(whole)-5])
	check("a wrong checksum", after, whole[:len(whole)-8]+"\x00\x00\x00\x00"+whole[len(whole)-4:])
	check("zeros after the end", after, whole+strings.Repeat("\x00", 512))
	check("text after the end", after, whole+"and so on")
	check("its own line, half of it", "5 4 [left out: 1 not in this format (the first in line 2), gzip is damaged, from line 6 on]",
		zipped(t, "1791640536 203.0.113.9 /1\nx\n"+three)+zipped(t, "1791640538 203.0.113.9 /4")[:30])
	check("nothing but its header", "0 0 [left out: gzip is damaged, from line 1 on]", whole[:10])

	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "%d 203.0.113.9 /%x\n", 1791640536+i, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	whole, cut := zipped(t, many.String()), false
	for at := len(whole) / 2; at < len(whole); at += len(whole) / 20 {
		r, err := replayLogs(t, total, Log{"a.gz", strings.NewReader(whole[:at])})
		if err != nil {
			t.Fatal(err)
		}
		l := r.Logs[0]
		if got, want := fmt.Sprint(l.notes()), fmt.Sprintf("[left out: gzip is damaged, from line %d on]", l.Requests+1); l.Lines != l.Requests || got != want {
			t.Errorf("%d of %d bytes: %d lines, %d requests, %s; want %s", at, len(whole), l.Lines, l.Requests, got, want)
		}
		if want := fmt.Sprintf("[a.gz is damaged, and this report ends before its end: nothing from line %d on was read; want a gzip that gzip -t finds whole]", l.Lines+1); fmt.Sprint(r.Warnings) != want {
			t.Errorf("%s, want %s", r.Warnings, want)
		}
		cut = cut || l.Lines > 0 && l.Lines < 3000
	}
	if !cut {
		t.Error("no half of the file has some of its lines")
	}
}

// One log with fractions of a second makes no other exact.
func TestALogOfWholeSecondsIsToldAmongOthers(t *testing.T) {
	check := func(want bool, logs ...string) {
		t.Helper()
		r, err := replayText(t, total, logs...)
		if err != nil || r.WholeSeconds != want {
			t.Errorf("%q: whole seconds %v, %v; want %v", logs, r.WholeSeconds, err, want)
		}
	}
	const whole, exact = "1791640536 203.0.113.1 /\n", "1791640537.5 203.0.113.1 /\n"
	check(true, whole)
	check(false, exact)
	check(false, whole+exact) // a log whose times have fractions has whole ones among them
	check(true, whole, exact)
	check(true, exact, whole)
	check(false, exact, "")
}

// One after the other or at the same time, it is the times that count.
func TestSeveralLogsAreMergedByTheirTimes(t *testing.T) {
	r, err := replayText(t, total, "1791640536.0 203.0.113.1 /\n1791640546.5 203.0.113.1 /\n", "", "1791640536.5 203.0.113.2 /\n1791640536.7 203.0.113.2 /\n1791640536.9 203.0.113.2 /late\n")
	if err != nil {
		t.Fatal(err)
	}
	l := r.Policy.Limits[1]
	if l.Requests != 5 || l.Refused != 1 || *l.FirstRefusal != "2026-10-10T13:55:36.9Z" || len(r.Logs) != 3 || r.From != "2026-10-10T13:55:36Z" || r.To != "2026-10-10T13:55:46.5Z" {
		t.Errorf("%+v from %s to %s, want 1 of 5 refused, the last of the first second", l, r.From, r.To)
	}
}

// A key a line, for a day: what is kept does not grow with the log.
func TestMemoryFollowsTheKeysThatAreInUse(t *testing.T) {
	var b strings.Builder
	const lines = 180_000
	for i := range lines {
		fmt.Fprintf(&b, "%d 10.%d.%d.%d /\n", 1791640536+i, i>>16, i>>8&255, i&255)
	}
	format, err := accesslog.ParseFormat("$msec $remote_addr $request_uri")
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(Options{Limits: testkit.Limits(t, total), Format: format, Suggest: &Suggest{}})
	if _, err := r.replay([]Log{{"log", strings.NewReader(b.String())}}); err != nil {
		t.Fatal(err)
	}
	p := r.policies[0]
	each := p.limits[0]
	if n, exact := each.sample.distinct(); n < lines*98/100 || n > lines*102/100 || exact {
		t.Errorf("about %d keys (exact: %v), want about %d", n, exact, lines)
	}
	if p.store.Len() > 200 || len(each.keys.rows) != mostKeys || len(each.sample.all) > mostSampled {
		t.Errorf("%d buckets, %d keys, %d in the sample; want about 60, %d, at most %d",
			p.store.Len(), len(each.keys.rows), len(each.sample.all), mostKeys, mostSampled)
	}
}

// Once memory has been found, neither a line nor a decision about a known key needs any more.
func TestALineDoesNotAllocate(t *testing.T) {
	set := testkit.Limits(t, threeLimits)
	for _, c := range []struct{ format, line string }{
		{"combined", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "POST /login?x=1 HTTP/1.1" 200 612 "-" "a \x22quoted\x22 agent"` + "\n"},
		{"json", `{"ts":1791640536.25,"request":{"client_ip":"203.0.113.9","method":"GET","uri":"/api/x","headers":{"A":["b","c"]}}}` + "\n"},
		{"ltsv", "time:10/Oct/2026:13:55:36 +0000\thost:203.0.113.9\treq:GET /api/x HTTP/1.1\tua:x\\x09y\n"},
	} {
		f, err := accesslog.ParseFormat(c.format)
		if err != nil {
			t.Fatal(err)
		}
		p := newPolicy(set, &Suggest{})
		policies := []*policy{p}
		names := accesslog.NewFieldNames(setsOf(policies))
		m, b, format := newMatcher(names, policies), newBatch(names), f.Bind(names)
		text := []byte(strings.Repeat(c.line, 100))
		nowUS := time.Now().UnixMicro()
		round := func() {
			m.fill(b, text, format)
			for i := range b.outcomes {
				nowUS += 1000
				p.decide(nowUS, &b.outcomes[i])
			}
		}
		for range 200 {
			round()
		}
		if len(b.requests) != 100 {
			t.Fatalf("%s: %d requests of 100 lines: %v", c.format, len(b.requests), b.flawed)
		}
		if n := testing.AllocsPerRun(100, round); n > 1 { // a log of sliding_window moves to new memory now and then
			t.Errorf("%s: %v allocations in 100 lines, want none", c.format, n)
		}
	}
}
