package limits

import (
	"math/big"
	"strconv"
)

// initial reads the share of its burst that a token bucket starts with. Nil: it starts full, or what is
// written is wrong.
func (t *table) initial(a Algorithm) *big.Rat {
	const want = "a share of burst, above 0 and at most 1: a bucket that was never used holds so much of it"
	share := new(big.Rat)
	switch v := t.values["initial"].(type) {
	case nil:
		return nil
	case int64:
		share.SetInt64(v)
	case float64: // the number that was written, and not the double that is nearest to it
		if _, ok := share.SetString(strconv.FormatFloat(v, 'f', -1, 64)); !ok {
			t.wrong("initial", want) // infinite, or none
			return nil
		}
	default:
		t.wrong("initial", want)
		return nil
	}
	switch {
	case share.Sign() <= 0 || share.Cmp(big.NewRat(1, 1)) > 0:
		t.wrong("initial", want)
		return nil
	case a != 0 && a != TokenBucket:
		t.wrong("initial", "none: only a token_bucket can start with less than it holds, this is a %s", a)
		return nil
	}
	return share
}

// start gives a token bucket's rate what it starts with, in whole tokens, and reports less than a request
// can cost: that one would never be admitted, for a refusal charges nothing, and what was never charged
// does not fill.
func (t *table) start(d *draft, r *Rate) (ok bool) {
	if d.initial == nil {
		return true
	}
	tokens := d.tokens(r.Burst)
	if tokens < d.mostCost() {
		key := "initial"
		if !t.has(key) {
			key = t.burstOrRate()
		}
		share, _ := d.initial.Float64()
		t.wrong(key, "room for %d, the cost of a request, in what a bucket starts with: initial = %v of burst = %d is %d",
			d.mostCost(), share, r.Burst, tokens)
		return false
	}
	r.setInitial(tokens)
	return true
}

// tokens is the limit's initial of a burst.
func (d *draft) tokens(burst int64) int64 {
	product := new(big.Int).Mul(d.initial.Num(), big.NewInt(burst))
	return product.Quo(product, d.initial.Denom()).Int64()
}

func (r *Rate) setInitial(tokens int64) {
	if tokens < r.Burst {
		r.Initial = tokens
	}
}
