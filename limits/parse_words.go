package limits

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// show writes a value as the limits file has it, shortened when it is long.
func show(value any) string {
	switch v := value.(type) {
	case string:
		if short := []rune(v); len(short) > 64 {
			return strconv.Quote(string(short[:64])) + "..."
		}
		return strconv.Quote(v)
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if strings.Trim(s, "-0123456789") == "" {
			s += ".0"
		}
		return s
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "an array of tables"
	case []any:
		parts := make([]string, 0, 8)
		for _, one := range v {
			if len(parts) == 8 {
				parts = append(parts, "...")
				break
			}
			parts = append(parts, show(one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(value) // whole numbers and booleans
}

// quoteKey writes a key as TOML has it: bare if it can be.
func quoteKey(key string) string { return toml.Key{key}.String() }

// span says which whole numbers are right.
func span(lo, hi int64) string {
	if lo == hi {
		return strconv.FormatInt(lo, 10)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}

// duration writes microseconds in the largest unit that leaves a whole number.
func duration(us int64) string {
	for _, unit := range units {
		if us%unit.us == 0 {
			return fmt.Sprintf("%d%s", us/unit.us, unit.name)
		}
	}
	return fmt.Sprintf("%dus", us)
}

// oneOf lists the words that are right and points at the one that was probably meant.
func oneOf(got string, words []string) string {
	want := "one of " + strings.Join(words, ", ")
	if near := nearest(got, words); near != "" {
		want += "; did you mean " + near + "?"
	}
	return want
}

// nearest is the word that got was probably meant to be: at most a third of it (and one letter) away.
func nearest(got string, words []string) string {
	near, least := "", len(got)/3+2
	if len(got) > 64 {
		return "" // no slip of the finger, and slow
	}
	for _, word := range words {
		if n := distance(strings.ToLower(got), strings.ToLower(word)); n < least && n < len(word) {
			near, least = word, n
		}
	}
	return near
}

// distance counts the letters to insert, remove, replace, or swap with their neighbour to make b of a.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
