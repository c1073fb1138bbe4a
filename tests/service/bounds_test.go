package service

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"authz/tests/rig"
)

// mostMemory is what a check and a reload may need, in KB.
const mostMemory = 1_000_000

// largestLimits are files as large as a set may be: long values, and as many overrides as there is room for.
func largestLimits(t *testing.T) (wrong, overrides string) {
	t.Helper()
	write := func(name string, print func(w *bufio.Writer)) string {
		path := filepath.Join(t.TempDir(), name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriter(f)
		print(w)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		return path
	}
	wrong = write("wrong.toml", func(w *bufio.Writer) {
		fmt.Fprint(w, "[limit.a]\n")
		for i := range 249_990 {
			fmt.Fprintf(w, "x%d=\"%s\"\n", i, strings.Repeat("y", 250))
		}
	})
	overrides = write("overrides.toml", func(w *bufio.Writer) {
		fmt.Fprint(w, "[limit.a]\nkey=[\"header:X-Plan\"]\nmissing=\"ip\"\nalgorithm=\"token_bucket\"\nrate=\"5/m\"\n")
		for i := range 40_000 {
			fmt.Fprintf(w, "[override.a.\"%s%d\"]\nrate=\"7/m\"\nburst=9\n", strings.Repeat("x", 600), i)
		}
	})
	return wrong, overrides
}

// peakMemory is the most memory that a process has had, in KB, since it began its program. The Maxrss of its end would
// count this test's memory too, from which it was forked.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	peak, err := strconv.Atoi(string(regexp.MustCompile(`VmHWM:\s+(\d+)`).FindSubmatch(status)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return peak
}

// A check and a reload of the largest files that are accepted stay under 1 GB.
func TestTheLargestLimitsFilesAreReadInAGigabyte(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "authz") // without the race detector, whose memory is not the point
	if out, err := exec.Command("go", "build", "-o", binary, "authz/cmd/authz").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wrong, overrides := largestLimits(t)
	check := exec.Command(binary, "check", wrong)
	pipe, err := check.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Start(); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 1, 4<<20)
	if _, err := pipe.Read(out); err != nil { // it has all errors then, and writes more of them than a pipe holds
		t.Fatal(err)
	}
	if peak := peakMemory(t, check.Process.Pid); peak > mostMemory {
		t.Errorf("a check needs %d KB, want %d at most", peak, mostMemory)
	}
	rest, err := io.ReadAll(pipe)
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, rest...)
	check.Wait()
	if code := check.ProcessState.ExitCode(); code != 1 || !strings.HasSuffix(string(out), "\nand 239993 more errors\n") {
		t.Errorf("exit %d, %d bytes of output, want 1 and the number of errors that were left out: %.300s", code, len(out), out[max(0, len(out)-300):])
	}
	serve := exec.Command(binary, "serve", "--limits", overrides, "--listen=127.0.0.1:0", "--admin=")
	log, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		serve.Process.Signal(syscall.SIGTERM)
		serve.Wait()
	}()
	lines := bufio.NewScanner(log)
	await := func(line string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), line) {
				return
			}
		}
		t.Fatalf("authz ended before it said %q", line)
	}
	await("msg=serving")
	if err := serve.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await("limits reloaded")
	if peak := peakMemory(t, serve.Process.Pid); peak > mostMemory {
		t.Errorf("reloads need %d KB, want %d at most", peak, mostMemory)
	}
}

// Files that are larger in all than a set may be are an error before they are read, and a pipe or a device is none.
func TestLimitsFilesThatAreTooLargeAreNotRead(t *testing.T) {
	dir := t.TempDir()
	for i, size := range []int64{40 << 20, 24<<20 + 1} { // sparse, and no TOML: reading one would say so
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i, ".toml")))
		if err != nil {
			t.Fatal(err)
		}
		f.Truncate(size)
		f.Close()
	}
	code, printed := rig.Authz(t, "check", dir)
	if want := dir + "/1.toml: with it the limits files have more than 64 MiB, want less\n"; code != 1 || printed != want {
		t.Errorf("exit %d: %s\nwant %s", code, printed, want)
	}
	code, printed = rig.Authz(t, "check", "/dev/zero")
	if want := "/dev/zero: not a regular file, want a limits file\n"; code != 1 || printed != want {
		t.Errorf("exit %d: %s\nwant %s", code, printed, want)
	}
	file := rig.LimitsFile(t, strings.Repeat("# many lines\n", 2_000_001))
	code, printed = rig.Authz(t, "check", file)
	if want := file + ":2000002: the limits files are too large from here on, want at most 250000 keys and tables in all (fewer in tables with a name over 128 bytes), and 2000000 lines\n"; code != 1 || printed != want {
		t.Errorf("exit %d: %s\nwant %s", code, printed, want)
	}
}
