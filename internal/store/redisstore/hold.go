package redisstore

import (
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// A hold gives one answer of a server again for a second, where each such answer costs its connection: go-redis closes it,
// and the next check would make another. A server that was demoted, or that refuses the account when it connects, is asked
// once a second then. It begins with the second such answer in a row: the new connection may lead to another server.
type hold struct {
	now    atomic.Pointer[heldError]
	before atomic.Bool // the answer before was one that costs a connection
}

type heldError struct {
	err   error
	until time.Time
}

const heldFor = time.Second

// held is the error that holds now, or nil.
func (h *hold) held() error {
	if e := h.now.Load(); e != nil {
		if time.Now().Before(e.until) {
			return e.err
		}
		h.now.CompareAndSwap(e, nil)
	}
	return nil
}

// learn takes in what came of a call.
func (h *hold) learn(err error) {
	switch costs := err != nil && costsConnection(err); {
	case costs && h.before.Swap(true):
		h.now.Store(&heldError{err, time.Now().Add(heldFor)})
	case !costs && h.before.Load():
		h.before.Store(false)
	}
}

// connecting is a command that only a new connection sends.
var connecting = regexp.MustCompile(`(?i)'(hello|auth|select|client[^']*)'`)

// costsConnection reports whether go-redis closes the connection for an error, though the server has answered. (For a
// refused login a breaker opens, whose probes come once a second.)
func costsConnection(err error) bool {
	switch Kind(err) {
	case "readonly":
		return true
	case "noperm":
		return connecting.MatchString(err.Error())
	case "other":
		return strings.Contains(err.Error(), "DB index is out of range")
	}
	return false
}

// held is the error that holds now, for a Server that many ask: one with a breaker.
func (r *Server) held() error {
	if r.breaker == nil {
		return nil
	}
	return r.hold.held()
}
