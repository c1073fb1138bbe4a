package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

// said is an error as Redis sends one.
type said string

func (e said) Error() string { return string(e) }
func (said) RedisError()     {}

// C114: Redis 7 begins with the word, Redis 6 hides it in a longer message.
func TestKindReadsBothGenerationsOfRedis(t *testing.T) {
	is := func(want, text string) {
		t.Helper()
		if got := Kind(fmt.Errorf("wrapped: %w", said(text))); got != want {
			t.Errorf("%s\nis %q, want %q", text, got, want)
		}
	}
	const sha = "7c4f8a3d6f0f1a2b3c4d5e6f708192a3b4c5d6e7"
	redis6 := func(text string) string {
		return "ERR Error running script (call to f_" + sha + "): @user_script:12: @user_script: 12: " + text
	}
	redis7 := func(text string) string { return text + " script: " + sha + ", on @user_script:12." }

	is("noscript", "NOSCRIPT No matching script. Please use EVAL.")
	is("oom", redis7("OOM command not allowed when used memory > 'maxmemory'."))
	is("oom", redis6("-OOM command not allowed when used memory > 'maxmemory'. "))
	is("oom", "OOM command not allowed when used memory > 'maxmemory'.")
	is("readonly", redis7("READONLY You can't write against a read only replica."))
	is("readonly", redis6("-READONLY You can't write against a read only replica. "))
	is("misconf", redis7("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."))
	is("misconf", redis6("-MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk. "))
	is("misconf", "MISCONF Errors writing to the AOF file: No space left on device")
	is("loading", "LOADING Redis is loading the dataset in memory")
	is("busy", "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
	is("noperm", "NOPERM this user has no permissions to run the 'evalsha' command or its subcommand")
	is("noperm", "NOPERM User limiter has no permissions to run the 'evalsha' command")
	is("noperm", redis7("ERR ACL failure in script: User limiter has no permissions to run the 'get' command"))
	is("noperm", redis6("The user executing the script can't run this command or subcommand"))
	is("noperm", redis6("The user executing the script can't access at least one of the keys mentioned in the command arguments"))
	is("noauth", "NOAUTH Authentication required.")
	is("noauth", "WRONGPASS invalid username-password pair or user is disabled.")
	is("noauth", "ERR Protocol error: unauthenticated multibulk length")
	is("wrongtype", redis7("WRONGTYPE Operation against a key holding the wrong kind of value"))
	is("wrongtype", redis6("-WRONGTYPE Operation against a key holding the wrong kind of value "))
	is("clusterdown", "CLUSTERDOWN Hash slot not served")
	is("moved", "MOVED 3999 127.0.0.1:6381")
	is("moved", "ASK 3999 127.0.0.1:6381")
	is("moved", "TRYAGAIN Multiple keys request during rehashing of slot")
	is("crossslot", "CROSSSLOT Keys in request don't hash to the same slot")
	is("crossslot", redis7("ERR Script attempted to access a non local key in a cluster node"))
	is("crossslot", redis6("Lua script attempted to access a non local key in a cluster node"))
	is("other", "ERR unknown command 'EVALSHA', with args beginning with: ")
	is("other", "ERR ARGV[4] (w) is -5, want 1 to 9007199254740991")
	is("other", "ERR max number of clients reached")
	is("other", "OOMPH")
}

func TestKindTellsTimeoutsFromLostConnections(t *testing.T) {
	is := func(want string, err error) {
		t.Helper()
		if got := Kind(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	is("", nil)
	is("timeout", fmt.Errorf("x: %w", context.DeadlineExceeded))
	is("timeout", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded})
	is("queue", errQueueFull)
	is("queue", errCrowded)
	is("timeout", errLate)
	is("pool", redis.ErrPoolTimeout)
	is("pool", redis.ErrPoolExhausted)
	is("network", &net.OpError{Op: "dial", Err: errors.New("connection refused")})
	is("network", io.EOF)
	is("network", io.ErrUnexpectedEOF)
	is("network", net.ErrClosed)
	is("malformed", redis.Nil)
	is("malformed", malformed("%d numbers, want %d", 4, 5))
	is("malformed", errors.New(`redis: can't parse "?"`))
	is("wrongtype", errWrongType)
	is("other", redis.ErrClosed)
	is("other", errors.New("the Redis password: no such file"))
}

// What a client can bring about must not switch a limit off.
func TestAClientCanExhaustTheQueueThePoolAndTheMemory(t *testing.T) {
	is := func(want bool, err error) {
		t.Helper()
		if got := ClientCanCause(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	is(true, errQueueFull)
	is(true, errCrowded)
	is(true, redis.ErrPoolTimeout)
	is(true, said("OOM command not allowed when used memory > 'maxmemory'."))
	is(false, io.EOF)
	is(false, errLate)
	is(false, context.DeadlineExceeded)
	is(false, nil)
}
