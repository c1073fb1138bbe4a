package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"authz/internal/replay/accesslog"
	"authz/internal/testkit"
)

// Whatever the order within 5 seconds, the report is that of the order of the times.
func TestLinesWithinTheReorderingAreTakenInOrder(t *testing.T) {
	line := func(i int) string { return fmt.Sprintf("%.3f 203.0.113.%d /\n", 1791640536+float64(i)*0.3, i%3) }
	var ordered, mixed strings.Builder
	for i := range 3000 {
		ordered.WriteString(line(i))
	}
	for from := 0; from < 3000; from += 15 { // 4.5 s, backwards
		for i := range 15 {
			mixed.WriteString(line(from + 14 - i))
		}
	}
	want, err := replayText(t, total, ordered.String())
	if err != nil {
		t.Fatal(err)
	}
	got, err := replayText(t, total, mixed.String())
	if err != nil {
		t.Fatal(err)
	}
	if g, w := coded(t, got), coded(t, want); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// linesAt is a line for each of these seconds.
func linesAt(seconds ...int) string {
	var b strings.Builder
	for _, s := range seconds {
		fmt.Fprintf(&b, "%d 203.0.113.%d /\n", 1791640536+s, s%3)
	}
	return b.String()
}

// every is n seconds, by this step.
func every(step, from, n int) (all []int) {
	for i := range n {
		all = append(all, from+i*step)
	}
	return all
}

func TestTheClockFollowsNoLineThatItsNeighboursDoNot(t *testing.T) {
	const day = 86400
	check := func(what, want string, parts ...[]int) {
		t.Helper()
		r, err := replayText(t, total, linesAt(slices.Concat(parts...)...))
		if err != nil {
			t.Fatal(err)
		}
		l := r.Logs[0]
		if got := fmt.Sprint(l.Requests, l.Late, l.Broken, r.Warnings); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	}
	check("two lines", "5000 0 [{from the future 2 641}] []", every(1, 0, 640), []int{day}, every(1, 640, 360), []int{day + 10}, every(1, 1000, 4000))
	check("one after the other", "5000 0 [{from the future 40 641}] []", every(1, 0, 640), every(1, day, 40), every(1, 640, 4360))
	check("the first", "1000 0 [{from the future 1 1}] []", []int{day}, every(1, 0, 1000))
	check("before the end", "102 0 [{from the future 2 101}] []", every(1, 0, 100), []int{day, day + 7}, every(1, 100, 2))
	check("the last, which moves nobody's", "102 0 [] []", every(1, 0, 100), []int{day, day + 7})
	check("a night", "2000 0 [] []", every(1, 0, 1000), every(1, day, 1000))
	check("a night, and late lines in the morning", "2000 40 [] []", every(1, 0, 960), every(1, day, 20), every(1, 960, 40), every(1, day+20, 980))
	check("few come", "1000 0 [] []", every(600, 0, 1000))
	check("few come, and one from the future", "1000 0 [{from the future 1 501}] []", every(600, 0, 500), []int{day + 300_000}, every(600, 300_000, 500))
	check("a clock that was set", "1960 0 [] []", every(1, 0, 960), every(1, 3600, 1000))
}

// What is left out counts nowhere but as a broken line.
func TestALineFromTheFutureIsLeftOutOfAllCounts(t *testing.T) {
	format, err := accesslog.ParseFormat("$msec $remote_addr $request_uri $limit_req_status")
	if err != nil {
		t.Fatal(err)
	}
	set := testkit.Limits(t, `
		[limit.a]
		key       = ["header:X-Plan"]
		missing   = "skip"
		algorithm = "fixed_window"
		rate      = "1/m"`)
	const line = "1791640536 203.0.113.9 / PASSED\n"
	r, err := Run(Options{Limits: set, Format: format, ReorderUS: 5e6}, []Log{{"log", strings.NewReader(line + "1791740536 - / PASSED\n" + line)}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(r.Logs[0].Broken, r.LimitReq, r.UnknownAddress, r.Policy.Limits[0].Missing), "[{from the future 1 2}] [{PASSED 2}] 0 2"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestALogThatIsNotInOrderIsSaidToBeSo(t *testing.T) {
	check := func(want string, seconds []int) {
		t.Helper()
		r, err := replayText(t, total, linesAt(seconds...))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(text.String(), "\n")
		if first != want || strings.HasPrefix(want, "WARNING") != strings.Contains(pageOf(t, r), "<b class=\"refused\">"+want+"</b>") {
			t.Errorf("got\n%s\nwant\n%s", first, want)
		}
	}
	const what = " come after later ones; want the oldest line first: tac turns a log around that has the newest first, sort puts others in order, and logs that are given as files of their own are merged by their times"
	newestFirst := every(-1, 1000, 1000)
	check("WARNING: log1 is not in the order of time, and this report is wrong: 994 requests of 1000"+what, newestFirst)
	check("WARNING: log1 is not in the order of time, and this report is wrong: 2000 requests of 3000"+what, slices.Concat(every(1, 20_000, 1000), every(1, 10_000, 1000), every(1, 0, 1000)))
	check("WARNING: log1 is not in the order of time, and this report is wrong: 1000 requests of 2000"+what, slices.Concat(every(1, 10_000, 1000), every(1, 0, 1000)))
	check("WARNING: log1 is not in the order of time, and this report is wrong: 60 requests of 1060"+what, slices.Concat(every(1, 10_000, 1000), every(1, 0, 60)))
	check("log1: 1050 lines, 1050 requests in the format $msec $remote_addr $request_uri", slices.Concat(every(1, 10_000, 1000), every(1, 0, 50)))
}

// A clock that stands still, or an hour for late lines: all requests would wait.
func TestWhatWaitsForLateLinesHasABound(t *testing.T) {
	const lines = 1_000_000
	line := "1791640536 203.0.113.9 /\n"
	format, err := accesslog.ParseFormat("$msec $remote_addr $request_uri")
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(Options{Limits: testkit.Limits(t, total), Format: format, ReorderUS: 3600e6})
	most := 0
	streams, err := r.open([]Log{{"log", strings.NewReader(strings.Repeat(line, lines))}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.start(streams)()
	s := streams[0]
	for s.ready() != nil {
		most = max(most, s.kept)
		r.decide(s.pop())
	}
	report, err := r.report(streams)
	if err != nil {
		t.Fatal(err)
	}
	if l := report.Logs[0]; report.Requests != lines || l.Late != 0 || l.Crowded < lines/2 || most < mostKept || most > mostKept+chunkBytes*64 || s.kept != 0 {
		t.Errorf("%+v, at most %d bytes at once, %d in the end; want %d requests, most of them crowded, %d bytes and a chunk", l, most, s.kept, lines, mostKept)
	}
	note := fmt.Sprintf("%d requests put in order among 64 MiB of them alone: more came in the time that --reorder gives to late ones", report.Logs[0].Crowded)
	if got := report.Logs[0].notes(); len(got) != 1 || got[0] != note {
		t.Errorf("got %q, want %q", got, note)
	}
}
