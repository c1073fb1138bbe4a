// Package store keeps the buckets: in this process (Memory) or in Redis (Redis).
package store

import (
	"context"

	"authz/limits"
)

// Result is the answer to one check, as semantics defines it.
type Result struct {
	Allowed   bool
	Remaining int64 // cost that would still be admitted now
	WaitUS    int64 // refused: until the same cost is admitted, -1 if never; admitted: the hold of a leaky bucket, else 0
	ResetUS   int64 // until the key is as if never used

	// Later: this is a shadow's, which is asked while the request goes on. The rest says nothing.
	Later bool
}

// Store decides requests.
type Store interface {
	// Take charges every check of the request or none, and appends one Result a check to dst.
	// The request is admitted when every check that is not a shadow is Allowed.
	// A peek charges nothing. nowUS 0 means the store's own clock, else microseconds since 1970.
	// No key may be named twice. An error means that nothing could be decided: dst is returned
	// as it came, and whether anything was charged is unknown.
	Take(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []Result) ([]Result, error)
}
