package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// said is an error as Redis sends one.
type said string

func (e said) Error() string { return string(e) }

func (said) RedisError() {}

// C114: Redis 7 begins with the word, Redis 6 hides it in a longer message.
func TestKindReadsBothGenerationsOfRedis(t *testing.T) {
	text, err := os.ReadFile("../../../tests/vectors/kind/replies.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		want, reply, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if got := Kind(fmt.Errorf("wrapped: %w", said(reply))); got != want {
			t.Errorf("%s\nis %q, want %q", reply, got, want)
		}
	}
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

// Redis says it of a command that is too long for who has not said a password.
func TestAnErrorOfALongCommandSaysThatAPasswordIsWanted(t *testing.T) {
	for _, length := range []string{"bulk length", "multibulk length"} {
		text := "ERR Protocol error: unauthenticated " + length
		if got := sorted(said(text)).Error(); got != "Redis wants a password: "+text {
			t.Errorf("%s\nis told as %q", text, got)
		}
	}
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
