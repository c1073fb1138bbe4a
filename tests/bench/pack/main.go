// Pack measures what the OpenResty pack costs inside nginx, against what people write by hand, on the same
// nginx and Redis, in alternating runs: how many requests a second, and how much of a core nginx takes for
// one, which says the same and hardly minds what else the machine does:
//
//   - access() with one limit, against an access_by_lua that does one bare EVALSHA of the same script;
//   - a refusal from the cache, against lua-resty-limit-traffic's own in-memory check, whose folder a
//     reader names: go run ./pack -limit-traffic /path/to/lua-resty-limit-traffic/lib
//
// It needs nginx with its lua module, redis-server, wrk, and a client library for what is written by hand:
// resty.redis, or Debian's lua-nginx-redis. It runs from tests/bench.
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed nginx.conf
var nginxConf string

func main() {
	log.SetFlags(0)
	limitTraffic := flag.String("limit-traffic", "", "folder with resty/limit/req.lua of lua-resty-limit-traffic")
	rounds := flag.Int("rounds", 7, "runs of each side")
	seconds := flag.Int("seconds", 3, "how long a run is")
	clients := flag.Int("clients", 32, "connections at once")
	addr := flag.String("addr", "127.0.0.1:18770", "where the nginx listens")
	flag.Parse()

	b := start(*addr, *limitTraffic)
	defer b.stop()
	b.clients, b.seconds = *clients, *seconds
	b.compare("one limit in Redis", "/evalsha", "/limited", *rounds, 200)
	if *limitTraffic == "" {
		fmt.Println("refused from the cache: not measured, want -limit-traffic DIR")
		return
	}
	b.compare("refused from the cache", "/traffic", "/refused", *rounds, 429)
}

type bench struct {
	addr             string
	clients, seconds int
	dir              string
	nginx            *exec.Cmd
	processes        []*exec.Cmd
}

// start runs a Redis and an nginx of one worker.
func start(addr, limitTraffic string) *bench {
	dir, err := os.MkdirTemp("", "authz-bench")
	if err != nil {
		log.Fatal(err)
	}
	b := &bench{addr: addr, dir: dir}
	root, err := filepath.Abs("../..")
	if err != nil {
		log.Fatal(err)
	}
	socket := filepath.Join(dir, "redis.sock")
	b.run("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no")

	policy := func(name, toml string) {
		file := filepath.Join(dir, name+".toml")
		b.write(file, []byte(toml))
		compile := exec.Command("go", "run", "authz/cmd/authz", "compile", file)
		compile.Dir, compile.Stderr = root, os.Stderr
		text, err := compile.Output()
		if err != nil {
			log.Fatal(err)
		}
		b.write(filepath.Join(dir, name+".json"), text)
	}
	limit := "[limit.one]\nkey = [\"ip\"]\nalgorithm = \"token_bucket\"\nrate = %q\nburst = %d\n"
	policy("wide", fmt.Sprintf(limit, "1000000/s", 1000000))
	policy("tight", fmt.Sprintf(limit, "1/300d", 1))

	include, err := os.ReadFile(filepath.Join(root, "nginx/openresty.conf"))
	if err != nil {
		log.Fatal(err)
	}
	b.write(filepath.Join(dir, "openresty.conf"), include)
	script := filepath.Join(root, "redisscripts/v1/token_bucket.lua")
	conf := strings.NewReplacer("ROOT", root, "SOCKET", socket, "BARE_SCRIPT", script, "LIMIT_TRAFFIC", limitTraffic, "ADDR", addr).Replace(nginxConf)
	b.write(filepath.Join(dir, "nginx.conf"), []byte(conf))
	b.nginx = b.run("nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", filepath.Join(dir, "error.log"))
	for range 100 {
		if b.status("/limited") == "200" {
			return b
		}
		time.Sleep(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(filepath.Join(dir, "error.log"))
	b.fail("nginx does not answer:\n%s", text)
	return nil
}

func (b *bench) status(path string) string {
	out, _ := exec.Command("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://"+b.addr+path).Output()
	return string(out)
}

func (b *bench) write(file string, text []byte) {
	if err := os.WriteFile(file, text, 0o644); err != nil {
		log.Fatal(err)
	}
}

func (b *bench) run(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	b.processes = append(b.processes, cmd)
	return cmd
}

func (b *bench) stop() {
	for _, cmd := range b.processes {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	}
	os.RemoveAll(b.dir)
}

func (b *bench) fail(format string, a ...any) {
	b.stop()
	log.Fatalf(format, a...)
}

// compare runs both sides by turns, after one run each that is not counted, and prints the medians. Every
// request must be answered by the status.
func (b *bench) compare(what, byHand, pack string, rounds, status int) {
	for _, path := range []string{byHand, pack} {
		b.status(path) // the only one that the sides which refuse admit
		b.status(path) // nginx has logged it when this one is answered
		b.measure(path, status)
	}
	var hand, ours, ratios, handUS, oursUS, ratiosUS []float64
	for range rounds {
		h, hUS := b.measure(byHand, status)
		p, pUS := b.measure(pack, status)
		hand, ours, ratios = append(hand, h), append(ours, p), append(ratios, p/h)
		handUS, oursUS, ratiosUS = append(handUS, hUS), append(oursUS, pUS), append(ratiosUS, hUS/pUS)
	}
	fmt.Printf("%s: %.0f/s by hand, %.0f/s by the pack, ratio %.2f (%.2f to %.2f); nginx's CPU %.1f µs and %.1f µs, ratio %.2f\n", what,
		median(hand), median(ours), median(ratios), slices.Min(ratios), slices.Max(ratios), median(handUS), median(oursUS), median(ratiosUS))
}

var (
	inAll     = regexp.MustCompile(`(\d+) requests in`)
	perSecond = regexp.MustCompile(`Requests/sec: +([0-9.]+)`)
)

// measure is how many requests a second wrk gets answered by the status, and nginx's time for one. nginx
// logs each other answer.
func (b *bench) measure(path string, status int) (rate, us float64) {
	before, ticks := b.others(), b.ticks()
	out, err := exec.Command("wrk", "-t1", fmt.Sprint("-c", b.clients), fmt.Sprint("-d", b.seconds), "http://"+b.addr+path).Output()
	m, n := perSecond.FindSubmatch(out), inAll.FindSubmatch(out)
	if err != nil || m == nil || n == nil || bytes.Contains(out, []byte("Socket errors")) {
		b.fail("%s: %v\n%s", path, err, out)
	}
	if others := b.others(); len(others) > len(before) {
		b.fail("%s: answers that are not %d, such as\n%.200s", path, status, others[len(before):])
	}
	rate, _ = strconv.ParseFloat(string(m[1]), 64)
	requests, _ := strconv.ParseFloat(string(n[1]), 64)
	return rate, float64(b.ticks()-ticks) * 10_000 / requests
}

// ticks is nginx's time so far, as Linux counts it, in hundredths of a second.
func (b *bench) ticks() (sum int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.nginx.Process.Pid))
	if err != nil {
		b.fail("%v", err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	for _, field := range fields[11:13] { // utime and stime
		n, _ := strconv.Atoi(field)
		sum += n
	}
	return sum
}

// others are the answers so far that had another status than their location is there for.
func (b *bench) others() []byte {
	text, err := os.ReadFile(filepath.Join(b.dir, "others.log"))
	if err != nil {
		b.fail("%v", err)
	}
	return text
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
