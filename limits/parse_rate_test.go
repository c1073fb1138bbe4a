package limits

import "testing"

// Windows of 10s that begin 3s after those of 1970.
func TestAnAlignedWindowBeginsAtItsOffset(t *testing.T) {
	r := &Rate{Count: 1, WindowUS: 10e6, OffsetUS: 3e6}
	for nowUS, want := range map[int64]int64{3e6: 3e6, 13e6 - 1: 3e6, 13e6: 13e6, 2e6: -7e6, 0: -7e6} {
		if got := r.WindowBeginUS(nowUS); got != want {
			t.Errorf("at %d: %d, want %d", nowUS, got, want)
		}
	}
}
