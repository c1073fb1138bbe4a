package limits

import (
	"fmt"
	"testing"
)

// Windows of 10s that begin 3s after those of 1970.
func TestAnAlignedWindowBeginsAtItsOffset(t *testing.T) {
	r := &Rate{Count: 1, WindowUS: 10e6, OffsetUS: 3e6}
	for nowUS, want := range map[int64]int64{3e6: 3e6, 13e6 - 1: 3e6, 13e6: 13e6, 2e6: -7e6, 0: -7e6} {
		if got := r.WindowBeginUS(nowUS); got != want {
			t.Errorf("at %d: %d, want %d", nowUS, got, want)
		}
	}
}

func TestARateReadAloneIsThatOfALimitsFile(t *testing.T) {
	read := func(a Algorithm, text string, burst *int64, want string) {
		t.Helper()
		r, err := ParseRate(text)
		got := fmt.Sprint(err)
		if err == nil {
			whole := &r
			if !r.Unlimited {
				whole = NewRate(a, r.Count, r.WindowUS, burst)
			}
			got = fmt.Sprintf("%s, burst %d, size %d", whole, whole.Burst, whole.Size(a))
		}
		if got != want {
			t.Errorf("%s %s: %s, want %s", a, text, got, want)
		}
	}
	three := int64(3)
	read(TokenBucket, "5/m", nil, "5/m, burst 5, size 5")
	read(TokenBucket, "10r/s", &three, "10/s, burst 3, size 3")
	read(LeakyBucket, "5/10s", nil, "5/10s, burst 0, size 1")
	read(LeakyBucket, "5/10s", &three, "5/10s, burst 3, size 4")
	read(SlidingWindow, "0/s", nil, "0/s, burst 0, size 0")
	read(FixedWindow, "unlimited", nil, "unlimited, burst 0, size 0")
	read(FixedWindow, "5/367d", nil, `"5/367d", want a window of 1ms to 366d`)
}
