package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// errWrongType is the answer for a request with a key that somebody else has written.
var errWrongType = &kindError{"wrongtype",
	errors.New("WRONGTYPE a key of this request holds another Redis type: delete it, or choose another --redis-prefix")}

// malformed is a reply that no script writes.
func malformed(format string, a ...any) error {
	return &kindError{"malformed", fmt.Errorf("Redis sent no script's reply: "+format, a...)}
}

// A replyError is an error that Redis sent.
type replyError string

func (e replyError) Error() string { return string(e) }

func (replyError) RedisError() {}

// A kindError is an error and its Kind, which is found once.
type kindError struct {
	kind string
	err  error
}

// Error is free of what Redis, or a proxy before it, quotes of a command that it does not know: the
// password may be among that. It says what Redis means where that leaves it to be guessed.
func (e *kindError) Error() string {
	text, _, _ := strings.Cut(e.err.Error(), ", with args beginning with")
	if strings.HasPrefix(text, "ERR Protocol error: "+wantsPassword) {
		return "Redis wants a password: " + text
	}
	return text
}

// wantsPassword begins what Redis calls a command that is too long for who has not said a password.
const wantsPassword = "unauthenticated "

func (e *kindError) Unwrap() error { return e.err }

// sorted is an error with its kind, nil for nil.
func sorted(err error) error {
	if err == nil {
		return nil
	}
	return &kindError{Kind(err), err}
}

// Kind sorts the errors of a Store under a few words, for metrics and logs:
//
//	timeout   no answer in time; whether anything was charged is unknown
//	queue     too many requests wait for Redis, or this one waited in vain in a crowd, or while it answered
//	          others; unknown likewise
//	pool      no free connection in time, here or in Redis
//	network   no connection, or a lost one; unknown likewise
//	breaker   Redis is not asked, since it did not answer others; nothing was charged
//	oom, readonly, misconf, loading, busy, noscript, noperm, noauth, wrongtype, masterdown,
//	clusterdown, moved, crossslot: what Redis said
//	malformed an answer that is not the script's
//	other     anything else
//
// It is "" for nil.
func Kind(err error) string {
	if err == nil {
		return "" // before what is below, which allocates
	}
	var open *openError
	var known *kindError
	var said redis.Error
	var network net.Error
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &open):
		return "breaker"
	case errors.As(err, &known):
		return known.kind
	case errors.Is(err, redis.Nil):
		return "malformed"
	case errors.As(err, &said):
		return kindOfReply(said.Error())
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return "pool"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timeout"
	case strings.HasPrefix(err.Error(), "redis: can't parse"), strings.HasPrefix(err.Error(), "redis: invalid reply"):
		return "malformed"
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.As(err, &certificate), errors.As(err, &record):
		return "network"
	}
	return "other"
}

// IsReply reports whether an error is what Redis itself has answered.
func IsReply(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}

// Kinds are all words that Kind may say.
var Kinds = []string{"timeout", "queue", "pool", "network", "breaker", "oom", "readonly", "misconf", "loading", "busy", "noscript",
	"noperm", "noauth", "wrongtype", "masterdown", "clusterdown", "moved", "crossslot", "malformed", "other"}

// ClientCanCause says whether clients could bring an error about by what they send: a limit that
// would answer it by allowing must not, or they could switch it off.
func ClientCanCause(err error) bool {
	switch Kind(err) {
	case "queue", "pool", "oom":
		return true
	}
	var open *openError
	return errors.As(err, &open) && open.byClients
}

// replyKinds are the words that begin an error of Redis, and what a script's own errors say
// where they have no such word.
var replyKinds = []struct{ word, kind string }{
	{"NOSCRIPT", "noscript"},
	{"OOM", "oom"},
	{"READONLY", "readonly"},
	{"MISCONF", "misconf"},
	{"LOADING", "loading"},
	{"BUSY", "busy"},
	{"NOPERM", "noperm"},
	{"NOAUTH", "noauth"},
	{"WRONGPASS", "noauth"},
	{"DENIED", "noauth"}, // protected mode: only to its own machine without a password
	{"WRONGTYPE", "wrongtype"},
	{"MASTERDOWN", "masterdown"},
	{"CLUSTERDOWN", "clusterdown"},
	{"MOVED", "moved"},
	{"ASK", "moved"},
	{"TRYAGAIN", "moved"},
	{"CROSSSLOT", "crossslot"},
}

// kindOfReply reads an error in both generations of wording: Redis 7 begins with the word, Redis 6
// says "ERR Error running script (call to f_…): @user_script:12: -OOM command not allowed …".
func kindOfReply(text string) string {
	for _, k := range replyKinds {
		if strings.HasPrefix(text, k.word+" ") {
			return k.kind
		}
	}
	if !strings.HasPrefix(text, "ERR ") {
		return "other"
	}
	for _, k := range replyKinds {
		if strings.Contains(text, "-"+k.word+" ") {
			return k.kind
		}
	}
	for _, words := range []struct{ text, kind string }{
		{"ACL failure in script", "noperm"},
		{"The user executing the script can't", "noperm"},
		{wantsPassword + "multibulk length", "noauth"}, // an EVALSHA of more than ten words
		{wantsPassword + "bulk length", "noauth"},      // a script of more than 16 KB
		{"invalid password", "noauth"},
		{"called without any password configured", "noauth"},
		{"but no password is set", "noauth"},
		{"max number of clients", "pool"},
		{"while the cluster is down", "clusterdown"},
		{"non local key", "crossslot"},
		{"do not hash to the same slot", "crossslot"},
	} {
		if strings.Contains(text, words.text) {
			return words.kind
		}
	}
	return "other"
}
