package decision

import (
	"authz/internal/store"
	"authz/limits"
)

// nearShare is the share of a limit's capacity, one in so many, that is left when a request comes near the limit.
const nearShare = 5

// Near says whether a request that a check admitted came near its limit. The first of a bucket never does: where the
// capacity is 1 there is no other.
func Near(c *limits.Check, r *store.Result) bool {
	size := c.Rate.Size(c.Limit.Algorithm)
	return r.Remaining*nearShare < size && r.Remaining+c.Cost < size
}
