package prove

import (
	"fmt"
	"strings"

	"authz/internal/human"
)

// slices is into how many parts a picture divides a window.
const pictureSlices = 20

// A timeline is when answers came, in slices of a window.
type timeline struct {
	SliceUS  int64                `json:"slice_us"`
	Admitted [pictureSlices]int64 `json:"admitted"`
	Refused  [pictureSlices]int64 `json:"refused"`
	Boundary int64                `json:"boundary"` // the slice in which an aligned window begins, by our clock; -1: not in the picture
}

// newTimeline is a window with this interval in its middle, or a boundary that is in the interval, so that
// a slice begins with it.
func newTimeline(seen observations, key int, middle span, windowUS, boundaryUS int64) *timeline {
	t := &timeline{SliceUS: max(1, windowUS/pictureSlices), Boundary: -1}
	fromUS := middle.fromUS - (t.SliceUS*pictureSlices-middle.lengthUS())/2
	if middle.fromUS < boundaryUS && boundaryUS < middle.toUS {
		t.Boundary = (boundaryUS - fromUS) / t.SliceUS
		fromUS = boundaryUS - t.Boundary*t.SliceUS
	}
	for i := range seen {
		o := &seen[i]
		if o.key != key || o.toUS < fromUS || o.toUS >= fromUS+t.SliceUS*pictureSlices {
			continue
		}
		switch slice := (o.toUS - fromUS) / t.SliceUS; o.verdict {
		case sawAdmitted:
			t.Admitted[slice]++
		case sawRefused:
			t.Refused[slice]++
		}
	}
	return t
}

// String is a line a slice: when it begins, a # for each that was admitted and a - for each that was
// refused, or for so many of them as the widest line needs, and the numbers. The boundary is a line too.
func (t *timeline) String() string {
	const width = 40
	most := int64(1)
	for i := range t.Admitted {
		most = max(most, t.Admitted[i]+t.Refused[i])
	}
	scale := (most + width - 1) / width
	var b strings.Builder
	for i := range t.Admitted {
		if int64(i) == t.Boundary {
			fmt.Fprintf(&b, "%8s +%s a window ends\n", "", strings.Repeat("=", width))
		}
		bar := strings.Repeat("#", int((t.Admitted[i]+scale-1)/scale)) + strings.Repeat("-", int((t.Refused[i]+scale-1)/scale))
		line := fmt.Sprintf("%8s |%s", human.Micros(int64(i)*t.SliceUS), bar)
		if bar != "" {
			line = fmt.Sprintf("%-*s %d admitted, %d refused", 10+width+1, line, t.Admitted[i], t.Refused[i])
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
