package redisstore

import (
	"bytes"

	"authz/internal/store"
	"authz/limits"
)

// slotCount is how many slots a cluster has.
const slotCount = 16384

// crcs is CRC16 as XMODEM has it, of each byte.
var crcs = func() (t [256]uint16) {
	for i := range t {
		c := uint16(i) << 8
		for range 8 {
			if c&0x8000 != 0 {
				c = c<<1 ^ 0x1021
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}()

// slotOf is the slot of a key: the checksum of what is between its first braces, or of all of it.
func slotOf(key []byte) int {
	if i := bytes.IndexByte(key, '{'); i >= 0 {
		if n := bytes.IndexByte(key[i+1:], '}'); n > 0 {
			key = key[i+1 : i+1+n]
		}
	}
	c := uint16(0)
	for _, b := range key {
		c = c<<8 ^ crcs[byte(c>>8)^b]
	}
	return int(c % slotCount)
}

// A part is the checks of a request that are asked for together.
type part struct {
	slot    int
	checks  []limits.Check
	places  []int // of each, among those of the request
	results []store.Result
	err     error
}

func (t *part) add(c limits.Check, place int) {
	t.checks, t.places = append(t.checks, c), append(t.places, place)
}

// admitted says whether it refuses nothing.
func (t *part) admitted() bool {
	for i := range t.results {
		if !t.results[i].Allowed && !t.checks[i].Limit.Shadow {
			return false
		}
	}
	return true
}

// bySlot is a request in parts, one for each slot.
func bySlot(checks []limits.Check) (parts []*part) {
next:
	for i, c := range checks {
		slot := slotOf(c.Key)
		for _, t := range parts {
			if t.slot == slot {
				t.add(c, i)
				continue next
			}
		}
		parts = append(parts, &part{slot: slot})
		parts[len(parts)-1].add(c, i)
	}
	return parts
}

// oneByOne is a request in parts of one check.
func oneByOne(checks []limits.Check) (parts []*part) {
	for i, c := range checks {
		parts = append(parts, &part{slot: slotOf(c.Key)})
		parts[i].add(c, i)
	}
	return parts
}
