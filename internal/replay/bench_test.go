package replay

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"authz/internal/testkit"
	"authz/limits"
)

// threeLimits are by address and for everybody, and three algorithms.
const threeLimits = `
	[limit.address]
	key       = ["ip"]
	algorithm = "token_bucket"
	rate      = "10/s"
	burst     = 20
	[limit.login]
	match     = { path = "/login", method = "POST" }
	key       = ["ip"]
	algorithm = "sliding_window"
	rate      = "5/m"
	[limit.api]
	match     = { path = "/api/**" }
	key       = ["ip", "path"]
	algorithm = "sliding_counter"
	rate      = "100/m"`

// writeLog generates an access log in the format combined: a thousand requests a second by addresses of
// which few are busy.
func writeLog(tb testing.TB, w io.Writer, lines int) {
	tb.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	out := bufio.NewWriterSize(w, 1<<20)
	paths := []string{"GET /", "GET /api/items/7", "POST /login", "GET /static/app.js?v=3", "GET /api/search?q=a%20b", "GET /users/4"}
	at := time.Date(2026, 10, 10, 13, 55, 36, 0, time.UTC)
	for i := range lines {
		client := int(random.ExpFloat64() * 3000)
		fmt.Fprintf(out, "203.%d.%d.%d - - [%s] \"%s HTTP/1.1\" 200 %d \"https://example.com/shop\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36\"\n",
			client>>16&255, client>>8&255, client&255, at.Add(time.Duration(i)*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"), paths[random.IntN(len(paths))], random.IntN(20000))
	}
	if err := out.Flush(); err != nil {
		tb.Fatal(err)
	}
}

func tryLimits(tb testing.TB, text string) (*limits.Set, error) {
	tb.Helper()
	return limits.Load("authz", testkit.WriteFile(tb, "limits.toml", text))
}

// BenchmarkReplay replays 5 million lines, and says how many a second, with how much memory at most, and how
// much of a core a line takes, which does not depend on who else uses the machine:
// go test -run '^$' -bench Replay -benchtime 1x ./internal/replay
func BenchmarkReplay(b *testing.B) {
	const lines = 5_000_000
	path := filepath.Join(b.TempDir(), "access.log")
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	writeLog(b, file, lines)
	if err := file.Close(); err != nil {
		b.Fatal(err)
	}
	set := testkit.Limits(b, threeLimits)
	for _, c := range []struct {
		name    string
		suggest *Suggest
	}{{"plain", nil}, {"suggest", &Suggest{Keys: 1000, Headroom: 200_000}}} {
		b.Run(c.name, func(b *testing.B) {
			runtime.GC()
			stop := make(chan struct{})
			most := make(chan uint64)
			go watchHeap(stop, most)
			before := cpuSeconds(b)
			for b.Loop() {
				file, err := os.Open(path)
				if err != nil {
					b.Fatal(err)
				}
				r, err := Run(Options{Limits: set, ReorderUS: 5e6, Suggest: c.suggest}, []Log{{"access.log", file}})
				file.Close()
				if err != nil || r.Requests != lines {
					b.Fatal(err)
				}
			}
			close(stop)
			b.ReportMetric((cpuSeconds(b)-before)*1e6/(float64(lines)*float64(b.N)), "cpu-us/line")
			b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
			b.ReportMetric(float64(<-most)/1e6, "MB-at-most")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// cpuSeconds is what this process has used.
func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// watchHeap looks at the heap until it is stopped, and says how large it was at most.
func watchHeap(stop <-chan struct{}, most chan<- uint64) {
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	var max uint64
	for {
		select {
		case <-every.C:
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			if s.HeapInuse > max {
				max = s.HeapInuse
			}
		case <-stop:
			most <- max
			return
		}
	}
}
