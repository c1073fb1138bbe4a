// Package human writes numbers and times as people read them.
package human

import (
	"fmt"
	"time"
)

// Count is "1 limit" or "2 limits".
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// Duration is a time as people read it.
func Duration(took time.Duration) string {
	switch {
	case took >= time.Minute:
		return took.Round(time.Second).String()
	case took >= time.Second:
		return took.Round(10 * time.Millisecond).String()
	}
	return took.Round(10 * time.Microsecond).String()
}

// Micros is Duration, of microseconds.
func Micros(us int64) string { return Duration(time.Duration(us) * time.Microsecond) }

// Limit is the numbers of a limit: "token_bucket, 5/m, burst 10".
func Limit(algorithm, rate string, burst int64) string {
	text := algorithm + ", " + rate
	if burst > 0 {
		text += fmt.Sprintf(", burst %d", burst)
	}
	return text
}
