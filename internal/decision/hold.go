package decision

import (
	"time"
)

// LongestAnswer is less than the second that nginx waits for it.
const LongestAnswer = 950 * time.Millisecond
