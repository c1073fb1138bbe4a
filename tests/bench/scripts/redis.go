package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A server is a redis-server of ours, with one connection.
type server struct {
	cmd  *exec.Cmd
	dir  string
	conn conn
	part int // the number of callgrind's last file
}

type conn struct {
	net.Conn
	in *bufio.Reader
}

// startRedis starts redis-server, if wanted under callgrind. Counted are then the functions that
// read, run and answer commands, not the timer; each PING ends a count, and the next one begins.
func startRedis(counted bool) *server {
	dir, err := os.MkdirTemp("", "authz")
	if err != nil {
		log.Fatal(err)
	}
	s := &server{dir: dir}
	args := []string{"redis-server", "--port", "0", "--unixsocket", s.socket(), "--dir", dir,
		"--save", "", "--appendonly", "no", "--hz", "1"}
	if counted {
		args = append([]string{"valgrind", "--quiet", "--tool=callgrind",
			"--callgrind-out-file=" + filepath.Join(dir, "out"), "--dump-before=pingCommand",
			"--toggle-collect=readQueryFromClient", "--toggle-collect=handleClientsWithPendingWrites"}, args...)
	}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		log.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if s.conn, err = s.dial(); err == nil {
			return s
		}
		if time.Now().After(deadline) {
			s.stop()
			log.Fatal(err)
		}
	}
}

func (s *server) socket() string { return filepath.Join(s.dir, "redis.sock") }

func (s *server) dial() (conn, error) {
	c, err := net.Dial("unix", s.socket())
	return conn{c, bufio.NewReaderSize(c, 1<<16)}, err
}

func (s *server) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
	os.RemoveAll(s.dir)
}

// command is a command as Redis reads it.
func command(words ...string) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(w), w)
	}
	return out
}

// must sends a command and returns the text that it answers, which must be no error.
func (s *server) must(words ...string) string {
	reply := s.ask(command(words...))
	if strings.HasPrefix(reply, "-") {
		log.Fatalf("Redis answers %q to %.80s", reply, words)
	}
	_, text, _ := strings.Cut(reply, "\r\n")
	return strings.TrimSuffix(text, "\r\n")
}

// ask sends a command and returns its reply as it came.
func (c *conn) ask(command []byte) string {
	if _, err := c.Write(command); err != nil {
		log.Fatal(err)
	}
	reply, err := c.reply(nil)
	if err != nil {
		log.Fatal(err)
	}
	return string(reply)
}

func (s *server) ask(command []byte) string { return s.conn.ask(command) }

// reply appends one whole reply to out.
func (c *conn) reply(out []byte) ([]byte, error) {
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	out = append(out, line...)
	n, _ := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	switch {
	case line[0] == '*':
		for range n {
			if out, err = c.reply(out); err != nil {
				return nil, err
			}
		}
	case line[0] == '$' && n >= 0:
		text := make([]byte, n+2)
		if _, err := io.ReadFull(c.in, text); err != nil {
			return nil, err
		}
		out = append(out, text...)
	}
	return out, nil
}

// run sends the calls from i to end of a series, and looks at the replies if they are measured.
func (c *conn) run(one series, i, end int) {
	for ; i < end; i++ {
		reply := c.ask(one.call(i))
		if i >= one.before && !strings.HasPrefix(reply, one.reply) {
			log.Fatalf("%s: Redis answers %.60q, want %q...", one.name, reply, one.reply)
		}
	}
}

// count is the instructions of a check of a series.
func (s *server) count(one series) []float64 {
	s.must("FLUSHALL")
	s.conn.run(one, 0, one.before)
	s.ping()
	s.conn.run(one, one.before, one.before+one.calls)
	counted := s.ping()
	// The end of the first PING and the beginning of the second are in it.
	return []float64{float64(counted-s.ping()) / float64(one.calls*one.checks)}
}

// ping ends a count and returns it.
func (s *server) ping() int {
	s.must("PING")
	s.part++
	text, err := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("out.%d", s.part)))
	if err != nil {
		log.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte("\ntotals: "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.Atoi(string(line))
	if err != nil {
		log.Fatalf("callgrind's file has no line of totals: %v", err)
	}
	return n
}

// time is the CPU time of a check of a series in Redis alone, with all lanes busy, and the time that
// Redis says it took for the calls, without reading and writing; both in µs.
func (s *server) time(one series) []float64 {
	const repeated = 20
	s.must("FLUSHALL")
	s.conn.run(one, 0, one.before)
	s.must("CONFIG", "RESETSTAT")
	start := s.cpuNS()
	var all sync.WaitGroup
	for lane := range one.lanes {
		all.Go(func() {
			c, err := s.dial()
			if err != nil {
				log.Fatal(err)
			}
			defer c.Close()
			for range repeated {
				for i := lane; i < one.calls; i += one.lanes {
					c.run(one, one.before+i, one.before+i+1)
				}
			}
		})
	}
	all.Wait()
	checks := float64(repeated * one.calls * one.checks)
	us := float64(s.cpuNS()-start) / 1000 / checks
	var said float64
	for line := range strings.Lines(s.must("INFO", "commandstats")) {
		var calls, usec float64
		name, rest, _ := strings.Cut(line, ":")
		fmt.Sscanf(rest, "calls=%g,usec=%g", &calls, &usec)
		if name == "cmdstat_"+one.command {
			said = usec / checks
		}
	}
	return []float64{us, said}
}

// cpuNS is the CPU time that the server has used.
func (s *server) cpuNS() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", s.cmd.Process.Pid))
	if err != nil {
		log.Fatal(err)
	}
	ns, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err != nil {
		log.Fatal(err)
	}
	return ns
}
