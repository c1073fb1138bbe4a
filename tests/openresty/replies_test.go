package openresty

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"authz/tests/rig"
)

// A prompter stands where a Redis should, and says to each request what it is told to.
type prompter struct {
	socket      string
	parts       atomic.Pointer[[]string] // each is said when the one before has been read
	pause       atomic.Int64             // between parts, in milliseconds
	connections atomic.Int32
}

func startPrompter(t *testing.T) *prompter {
	t.Helper()
	p := &prompter{socket: filepath.Join(rig.SocketDir(t), "prompter.sock")}
	rig.ListenFor(t, "unix", p.socket, func(client net.Conn) {
		p.connections.Add(1)
		buf := make([]byte, 64<<10)
		for {
			if _, err := client.Read(buf); err != nil {
				return
			}
			for _, part := range *p.parts.Load() {
				if _, err := client.Write([]byte(part)); err != nil {
					return
				}
				for unread(client) {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Duration(p.pause.Load()) * time.Millisecond)
			}
		}
	})
	return p
}

// unread is whether the other end of a unix socket has still to read what was written.
func unread(client net.Conn) bool {
	var bytes int32
	raw, err := client.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) {
		syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCOUTQ, uintptr(unsafe.Pointer(&bytes)))
	})
	return bytes > 0
}

// says is what the prompter says from now on.
func (p *prompter) says(parts ...string) { p.parts.Store(&parts) }

// startPrompted starts an nginx of one worker with a store at the prompter, and locations that ask it for one
// check, for two, for the text of a key, and for one check after a login.
func startPrompted(t *testing.T, p *prompter, timeout string) *rig.NginxServer {
	t.Helper()
	return rig.StartPackNginx(t, 1, fmt.Sprintf(`
		lua_shared_dict authz 1m;
		init_by_lua_block {
			local driver = require "driver"
			local options = {socket = "%s", timeout = "%s"}
			driver.start({[""] = options, login = setmetatable({password = "s3cr3t"}, {__index = options})})
			local limit = {algorithm = "fixed_window"}
			local rate = {limit = 5, window_us = 1000000, offset_us = 0, burst = 0, initial = 0}
			local function check(key) return {limit = limit, rate = rate, key = key, cost = 1} end
			local function say(results, err, kind)
				if results == nil then return ngx.print(kind, ": ", err) end
				if type(results) ~= "table" then return ngx.print(tostring(results)) end
				for i, r in ipairs(results) do
					ngx.print(i > 1 and ", " or "", tostring(r.allowed), (" %%d %%d %%d"):format(r.remaining, r.wait_us, r.reset_us))
				end
			end
			function one() say(driver.redis[""]:take(nil, {check "a"})) end
			function two() say(driver.redis[""]:take(nil, {check "a", check "b"})) end
			function get() say(driver.redis[""]:get("a")) end
			function login() say(driver.redis.login:take(nil, {check "a"})) end
		}
		server {
			listen LISTEN;
			lua_socket_log_errors off;
			location = /one { content_by_lua_block { one() } }
			location = /two { content_by_lua_block { two() } }
			location = /get { content_by_lua_block { get() } }
			location = /login { content_by_lua_block { login() } }
		}`, p.socket, timeout), nil)
}

const (
	replyToOne = "*4\r\n:1\r\n:4\r\n:0\r\n:200000\r\n"
	replyToTwo = "*9\r\n:0\r\n:0\r\n:0\r\n:-1\r\n:7\r\n:1\r\n:9007199254740991\r\n:0\r\n:12\r\n"
)

// A reply comes in any two parts, or byte for byte, and is what it is in one.
func TestAReplyIsTheSameHoweverItIsCut(t *testing.T) {
	p := startPrompter(t)
	n := startPrompted(t, p, "20s")
	is := func(path, reply, want string) {
		t.Helper()
		ask := func(parts ...string) {
			t.Helper()
			p.says(parts...)
			rig.Same(t, fmt.Sprintf("%q %s", parts, n.Send(t, "GET "+path, "").Body), fmt.Sprintf("%q %s", parts, want))
		}
		ask(reply)
		for at := 1; at < len(reply); at++ {
			ask(reply[:at], reply[at:])
		}
		ask(strings.Split(reply, "")...)
	}
	is("/one", replyToOne, "true 4 0 200000")
	is("/two", replyToTwo, "false 0 -1 7, true 9007199254740991 0 12")
	is("/get", "$5\r\na\r\nb:\r\n", "a\r\nb:")
	is("/get", "$0\r\n\r\n", "")
	is("/get", "$-1\r\n", "false")
	rig.Same(t, fmt.Sprint("connections: ", p.connections.Load()), "connections: 1")
	is("/one", "-ERR no\r\n", "other: ERR no")
	is("/get", "-LOADING it\r\n", "loading: LOADING it")
}

// What follows a reply, or an error, ends the connection: it is nobody's reply.
func TestWhatFollowsAReplyEndsItsConnection(t *testing.T) {
	p := startPrompter(t)
	n := startPrompted(t, p, "20s")
	is := func(path, reply, want string) {
		t.Helper()
		before := p.connections.Load()
		for range 2 {
			p.says(reply)
			rig.Same(t, fmt.Sprintf("%q %s", reply, n.Send(t, "GET "+path, "").Body), fmt.Sprintf("%q %s", reply, want))
		}
		p.says(replyToOne)
		rig.Same(t, n.Send(t, "GET /one", "").Body, "true 4 0 200000")
		// One of the three was on the connection that the last one before them had left. A connection whose server answers
		// with an error is kept, but for one a second.
		made := p.connections.Load() - before
		if isError := reply == "-ERR no\r\n"; made != 2 && !(isError && made <= 1) {
			t.Errorf("%.40q: %d connections, want 2", reply, made)
		}
	}
	p.says(replyToOne)
	rig.Same(t, n.Send(t, "GET /one", "").Body, "true 4 0 200000")
	is("/one", replyToOne+"*4\r\n:0\r\n:0\r\n:9\r\n:9\r\n", "true 4 0 200000")
	is("/one", replyToOne+"x", "true 4 0 200000")
	is("/one", replyToOne+strings.Repeat("x", 100_000), "true 4 0 200000")
	is("/two", replyToTwo+"\r\n", "false 0 -1 7, true 9007199254740991 0 12")
	is("/get", "$1\r\na\r\n$1\r\nb\r\n", "a")
	is("/one", "-ERR no\r\n", "other: ERR no")
	is("/one", "-ERR no\r\n"+replyToOne, "other: ERR no")
	is("/one", "-NOSCRIPT no\r\n"+replyToOne, "malformed: Redis sent more than a reply")
	is("/login", "+OK\r\n"+replyToOne, "malformed: Redis sent more than a reply")
}

// What no script writes is malformed as soon as it is seen: nothing is awaited, and nothing made, because it was
// announced. The connection is not used again.
func TestWhatNoRedisSaysIsMalformedAtOnce(t *testing.T) {
	p := startPrompter(t)
	n := startPrompted(t, p, "20s") // who waited for more would say timeout
	is := func(path, reply, want string) {
		t.Helper()
		before := p.connections.Load()
		p.says(reply)
		for range 2 {
			rig.Same(t, fmt.Sprintf("%.40q %s", reply, n.Send(t, "GET "+path, "").Body), fmt.Sprintf("%.40q malformed: Redis sent %s", reply, want))
		}
		rig.Same(t, fmt.Sprintf("%.40q: %d connections", reply, p.connections.Load()-before), fmt.Sprintf("%.40q: 2 connections", reply))
	}
	list := func(line, shown string) { is("/one", line, `no reply of our script: "`+shown+`", want 4 numbers`) }
	list("\r\n", "")
	list("*2147483647\r\n:1\r\n", "*2147483647")
	list("*-1\r\n", "*-1")
	list("*5\r\n", "*5")
	list("*04\r\n", "*04")
	list(":1\r\n", ":1")
	list("$2147483647\r\nhi", "$2147483647")
	list("$-1\r\n", "$-1")
	list("+OK\r\n", "+OK")
	list("~4\r\n", "~4")
	list("HTTP/1.1 400 Bad\nRequest\x00 and so on, and on\r\n", "HTTP/1.1 400 Bad?Request? and so")
	is("/two", "*4\r\n", `no reply of our script: "*4", want 9 numbers`)

	number := func(line string) {
		is("/one", "*4\r\n:1\r\n"+line+"\r\n", `no reply of our script: "`+line+`", want a number`)
	}
	for _, line := range []string{"", ":", ":x", ":1x", ": 1", ":+1", ":01", ":-0", ":0x1", ":1e3", ":1.5", ":inf", ":nan", ":9007199254740993",
		":99999999999999999999999999", "$1", "*1", "-ERR no", "+1", ",1"} {
		number(line)
	}
	is("/one", "*4\r\n:7\r\n:1\r\n:0\r\n:1\r\n", "no reply of our script: want 4 numbers in their bounds")
	is("/one", strings.Repeat("x", 5000), "a line without end")
	is("/one", "-"+strings.Repeat("x", 5000), "a line without end")

	for _, reply := range []string{"$4097\r\n", "$2147483647\r\n", "$-2\r\n", "$x\r\n", "+OK\r\n", ":1\r\n", "*1\r\n$1\r\na\r\n"} {
		is("/get", reply, "no text of at most 4096 bytes")
	}
	is("/get", "$1\r\nabc", "no end of a text")
	is("/login", "+QUEUED s3cr3t\r\n", "no OK")
}

// The timeout is for the whole reply, not for each of its bytes.
func TestAByteNowAndThenIsNotAwaitedToTheEnd(t *testing.T) {
	p := startPrompter(t)
	n := startPrompted(t, p, "200ms")
	p.pause.Store(5)
	is := func(path, begin, more string) {
		t.Helper()
		p.says(append([]string{begin}, strings.Split(strings.Repeat(more, 4000), "")...)...)
		rig.Same(t, fmt.Sprintf("%q %s", begin, n.Send(t, "GET "+path, "").Body), fmt.Sprintf("%q timeout: timeout", begin))
	}
	is("/one", "-ERR ", "x")
	is("/one", "*4\r\n:1\r\n:", "1")
	is("/get", "$4000\r\n", "x")
	is("/login", "+O", "K")
}
