package prove

import (
	"authz/internal/testkit"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func TestAPictureIsOfTheFullestWindow(t *testing.T) {
	var seen observations
	see := func(n int, key int, atMS int64, verdict sighting) {
		for range n {
			seen = append(seen, observation{span: span{atMS*1000 - 500, atMS * 1000}, key: key, verdict: verdict})
		}
	}
	see(1, 1, 500, sawAdmitted)
	see(5, 1, 985, sawAdmitted)
	see(3, 1, 1004, sawRefused)
	see(70, 1, 1030, sawAdmitted)
	see(13, 1, 1031, sawRefused)
	see(2, 1, 1100, sawNothing)
	see(9, 2, 1100, sawAdmitted)
	see(4, 1, 1505, sawAdmitted)
	check := func(boundaryMS int64, want string) {
		t.Helper()
		if got := newTimeline(seen, 1, span{984_000, 1_010_000}, 200_000, boundaryMS*1000).String(); got != want {
			t.Errorf("a window ends at %d ms: got\n%s\nwant\n%s", boundaryMS, got, want)
		}
	}
	const end = "         +======================================== a window ends\n"
	const picture = `      0s |
    10ms |
    20ms |
    30ms |
    40ms |
    50ms |
    60ms |
    70ms |
    80ms |##                                        5 admitted, 0 refused
    90ms |
         +======================================== a window ends
   100ms |-                                         0 admitted, 3 refused
   110ms |
   120ms |
   130ms |########################-----             70 admitted, 13 refused
   140ms |
   150ms |
   160ms |
   170ms |
   180ms |
   190ms |
`
	check(1000, picture)
	check(1500, strings.Replace(picture, end, "", 1))
}

// Only a Date that cannot be of our clock says that the server's is another.
func TestTheServersClockIsOursUnlessItsDateSaysOtherwise(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 250e6, time.UTC)
	check := func(wantAhead, wantUnsure time.Duration, wantWhose string, seen ...observation) {
		t.Helper()
		p := &proof{prober: &prober{began: began}, promise: newPromise(t, "fixed_window", "5/m", 0), seen: seen}
		ahead, unsure, whose := p.serverClock()
		if ahead != wantAhead.Microseconds() || unsure != wantUnsure.Microseconds() || whose != wantWhose {
			t.Errorf("%v: ahead by %dus, to %dus, by %s; want %v, %v, %s", seen, ahead, unsure, whose, wantAhead, wantUnsure, wantWhose)
		}
	}
	at := func(ms int64, date string) observation {
		d, err := time.Parse(time.TimeOnly, date)
		if err != nil {
			t.Fatal(err)
		}
		return observation{span: span{ms * 1000, ms*1000 + 50_000}, date: d.AddDate(2026, 0, 0)}
	}
	check(0, 0, "the clock here")
	check(0, 0, "the clock here", observation{span: span{0, 1000}})
	check(0, 0, "the clock here", at(0, "12:00:00"), at(700, "12:00:00"), at(760, "12:00:01"), at(2000, "12:00:01"))
	// Ahead by 3.7 to 5.75 s, as both say; then by 4.2 s at least, as the second says.
	check(4_725*time.Millisecond, 1025*time.Millisecond, "the server's Date", at(0, "12:00:04"), at(1000, "12:00:05"))
	check(4_975*time.Millisecond, 775*time.Millisecond, "the server's Date", at(0, "12:00:04"), at(500, "12:00:05"))
	// Two servers behind one name, of which nobody knows which counts.
	check(0, 0, "the clock here", at(0, "12:00:04"), at(1000, "12:10:00"))
}

func TestARunWantsTheNumbersToStay(t *testing.T) {
	set := testkit.Limits(t, `
		[limit.sale]
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "3/m"
		[schedule.sale.friday]
		rate  = "9/m"
		from  = "2026-11-27T00:00"
		until = "2026-11-28T00:00"
		zone  = "UTC"`)
	check := func(want, began string, lasts time.Duration) {
		t.Helper()
		at, err := time.Parse(time.RFC3339, began)
		if err != nil {
			t.Fatal(err)
		}
		p := &proof{prober: &prober{began: at}, lasts: lasts}
		got := "begins"
		if err := p.keepsItsNumbers(set.Limits()[0], at.UnixMicro()); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s for %v: got\n%s\nwant\n%s", began, lasts, got, want)
		}
	}
	const nothing = "nothing was sent: a schedule gives limit.sale other numbers at 2026-11-27T00:00:00Z, and the run may take "
	check("begins", "2026-11-26T00:00:00Z", time.Hour)
	check("begins", "2026-11-26T23:59:00Z", 57*time.Second)
	check(nothing+"58.1s; want one after that, or --for=58s, which may be too short to say that the promise is held", "2026-11-26T23:59:00Z", 58100*time.Millisecond)
	check(nothing+"10s; want one after that", "2026-11-26T23:59:57.5Z", 10*time.Second)
	check("begins", "2026-11-27T00:00:00Z", 10*time.Second)
	check("begins", "2026-11-28T00:00:00Z", 3*time.Hour)
}

// What came after the numbers had changed is neither held nor broken.
func TestAnswersFromAfterTheNumbersChangedAreNoVerdict(t *testing.T) {
	began := time.Date(2026, 11, 26, 23, 59, 0, 0, time.UTC)
	p := &proof{prober: &prober{began: began}, promise: newPromise(t, "fixed_window", "1/h", 0), keys: 1, switchesUS: began.Add(time.Minute).UnixMicro()}
	for i := range int64(5) {
		p.seen = append(p.seen, observation{span: span{i * 1000, 60_000_000 + i*1000}, key: 1, verdict: sawAdmitted, status: 200})
	}
	r := p.report()
	want := "unclear: the last answers came after 2026-11-27T00:00:00Z, when a schedule gives the limit other numbers"
	if got := r.Verdict + ": " + r.Why; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAReasonHasNoAddresses(t *testing.T) {
	check := func(want string, err error) {
		t.Helper()
		if got := reason(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
	here, there := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50001}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: here, Addr: there, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	check("read: read: connection reset by peer", reset)
	check("read: read: connection reset by peer", fmt.Errorf("error when reading response headers: %w", reset))
	check("dial: connect: connection refused", &net.OpError{Op: "dial", Net: "tcp", Addr: there, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	check("dial: i/o timeout", &net.OpError{Op: "dial", Net: "tcp", Addr: there, Err: os.ErrDeadlineExceeded})
	check("lookup site.test: no such host", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "site.test", Server: "127.0.0.53:53", IsNotFound: true}})
	check("lookup site.test: no name server answers", &net.DNSError{Err: "read udp 127.0.0.1:50001->127.0.0.53:53: i/o timeout", Name: "site.test", IsTimeout: true})
	check("fasthttp: timeout", fasthttp.ErrTimeout)
}
