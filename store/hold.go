package store

import (
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// A hold gives one answer of a server again for a second, where each such answer costs its connection: go-redis closes it,
// and the next check would make another. A server that was demoted, or that refuses the account when it connects, is asked
// once a second then.
type hold struct{ now atomic.Pointer[heldError] }

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
	if err != nil && costsConnection(err) {
		h.now.Store(&heldError{err, time.Now().Add(heldFor)})
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
