package limits

import (
	"fmt"
	"testing"
)

func TestARateReadAloneIsThatOfALimitsFile(t *testing.T) {
	three := int64(3)
	read := func(a Algorithm, text string, burst *int64, want string) {
		t.Helper()
		r, err := ReadRate(a, text, burst)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprintf("%s, burst %d, size %d", r, r.Burst, r.Size(a))
		}
		if got != want {
			t.Errorf("%s %s: %s, want %s", a, text, got, want)
		}
	}
	read(TokenBucket, "5/m", nil, "5/m, burst 5, size 5")
	read(TokenBucket, "10r/s", &three, "10/s, burst 3, size 3")
	read(LeakyBucket, "5/10s", nil, "5/10s, burst 0, size 1")
	read(LeakyBucket, "5/10s", &three, "5/10s, burst 3, size 4")
	read(SlidingWindow, "0/s", nil, "0/s, burst 0, size 0")
	read(FixedWindow, "unlimited", nil, "unlimited, burst 0, size 0")
	read(FixedWindow, "5/367d", nil, `"5/367d", want a window of 1ms to 366d`)
}
