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
	"time"
)

// A server is a redis-server that callgrind watches, with one connection.
type server struct {
	cmd  *exec.Cmd
	dir  string
	keep bool
	conn net.Conn
	in   *bufio.Reader
	part int // the number of callgrind's last file
}

// startRedis starts redis-server under callgrind. Counted are the functions that read, run and answer
// commands, not the timer; each PING ends a count, and the next one begins.
func startRedis(keep string) (*server, error) {
	s := &server{dir: keep, keep: keep != ""}
	if !s.keep {
		dir, err := os.MkdirTemp("", "authz")
		if err != nil {
			return nil, err
		}
		s.dir = dir
	}
	socket := filepath.Join(s.dir, "redis.sock")
	s.cmd = exec.Command("valgrind", "--quiet", "--tool=callgrind", "--callgrind-out-file="+filepath.Join(s.dir, "out"),
		"--dump-before=pingCommand", "--toggle-collect=readQueryFromClient", "--toggle-collect=handleClientsWithPendingWrites",
		"redis-server", "--port", "0", "--unixsocket", socket, "--dir", s.dir, "--save", "", "--appendonly", "no", "--hz", "1")
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			s.conn, s.in = conn, bufio.NewReaderSize(conn, 1<<20)
			return s, nil
		}
		if time.Now().After(deadline) {
			s.stop()
			return nil, err
		}
	}
}

func (s *server) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
	if !s.keep {
		os.RemoveAll(s.dir)
	}
}

// command is a command as Redis reads it.
func command(words ...string) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(w), w)
	}
	return out
}

// must sends a command and returns its raw reply, which must be no error.
func (s *server) must(words ...string) []byte {
	return s.send(command(words...))
}

func (s *server) send(command []byte) []byte {
	if _, err := s.conn.Write(command); err != nil {
		log.Fatal(err)
	}
	reply, err := s.reply(nil)
	if err != nil || reply[0] == '-' {
		log.Fatalf("Redis answers %q (%v) to\n%s", reply, err, command)
	}
	return reply
}

// reply appends one whole reply to out.
func (s *server) reply(out []byte) ([]byte, error) {
	line, err := s.in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	out = append(out, line...)
	n, _ := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	switch {
	case line[0] == '*':
		for range n {
			if out, err = s.reply(out); err != nil {
				return nil, err
			}
		}
	case line[0] == '$' && n >= 0:
		text := make([]byte, n+2)
		if _, err := io.ReadFull(s.in, text); err != nil {
			return nil, err
		}
		out = append(out, text...)
	}
	return out, nil
}

// measure returns the instructions of one call of a series.
func (s *server) measure(series series) float64 {
	s.must("FLUSHALL")
	for i := range series.before {
		s.send(series.call(i))
	}
	s.must("PING")
	s.part++
	for i := range series.calls {
		reply := s.send(series.call(series.before + i))
		if !strings.HasPrefix(string(reply), series.reply) {
			log.Fatalf("%s: Redis answers %.60q, want %q...", series.name, reply, series.reply)
		}
	}
	s.must("PING")
	s.part++
	return float64(s.total()-s.pingCost()) / float64(series.calls)
}

// total reads the count of callgrind's last file.
func (s *server) total() int {
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

// pingCost is the count of a PING, half of which stands in each of two counts.
func (s *server) pingCost() int {
	s.must("PING")
	s.part++
	return s.total()
}
