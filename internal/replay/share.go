package replay

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Share is parts in a million.
type Share int64

// Whole is all of something.
const Whole Share = 1_000_000

func shareOf(part, all int64) Share { return Share(scaled(part, all, int64(Whole))) }

// UnmarshalText reads a percentage, such as 0.1%.
func (s *Share) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	units, fraction, _ := strings.Cut(number, ".")
	n, err := strconv.ParseUint(units+fraction+"0000"[:max(0, 4-len(fraction))], 10, 62)
	if !ok || err != nil || units == "" || len(fraction) > 4 || n > math.MaxInt32 {
		return fmt.Errorf("%q, want a percentage with 4 digits after the point at most, such as 0.1%%", text)
	}
	*s = Share(n)
	return nil
}

// String is a percentage, in as many digits as it needs.
func (s Share) String() string {
	text := fmt.Sprintf("%d.%04d", s/10000, s%10000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + "%"
}

// MarshalJSON writes a fraction of 1: 0.001 for 0.1%.
func (s Share) MarshalJSON() ([]byte, error) {
	text := fmt.Sprintf("%d.%06d", s/Whole, s%Whole)
	return []byte(strings.TrimSuffix(strings.TrimRight(text, "0"), ".")), nil
}

// more is n and this share of it more, rounded up.
func (s Share) more(n int64) int64 {
	extra := scaled(n, int64(Whole), int64(s))
	if extra < beyond && (n%int64(Whole))*(int64(s)%int64(Whole))%int64(Whole) != 0 {
		extra++
	}
	return min(beyond, n+extra)
}
