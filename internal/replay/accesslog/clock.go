package accesslog

import (
	"bytes"
	"time"
)

// A clock reads the time of a line, in microseconds since 1970. Most lines have the time of the one
// before, whose text it remembers.
type clock struct {
	text   []byte
	timeUS int64
}

// of is the time that the most exact of the fields says. It is false for none, or one that cannot be read.
func (c *clock) of(f *fields) (int64, bool) {
	for at := placeMsec; at <= placeTime; at++ {
		text := f.Values[at]
		if len(text) == 0 {
			continue
		}
		if bytes.Equal(text, c.text) {
			return c.timeUS, true
		}
		timeUS, ok := readTime(text)
		if ok {
			c.text, c.timeUS = append(c.text[:0], text...), timeUS
		}
		return timeUS, ok
	}
	return 0, false
}

// readTime reads $time_local, $time_iso8601, or a number of seconds; whatever is too large to be seconds
// is milliseconds, microseconds or nanoseconds. Times before 1970 are none.
func readTime(b []byte) (timeUS int64, ok bool) {
	b = bytes.TrimSuffix(bytes.TrimPrefix(b, []byte("[")), []byte("]"))
	switch {
	case len(b) > 2 && b[2] == '/':
		timeUS, ok = readLocal(b)
	case len(b) > 4 && b[4] == '-':
		timeUS, ok = readISO(b)
	default:
		timeUS, ok = readNumber(b)
	}
	return timeUS, ok && timeUS > 0
}

// readLocal reads 10/Oct/2026:13:55:36 -0700.
func readLocal(b []byte) (int64, bool) {
	if len(b) != len("10/Oct/2026:13:55:36 -0700") || b[6] != '/' || b[11] != ':' || b[20] != ' ' {
		return 0, false
	}
	month := 0
	for i, name := range months {
		if string(b[3:6]) == name {
			month = i + 1
		}
	}
	offsetUS, ok := zoneOf(b[21:])
	timeUS, ok2 := instant(digits(b[7:11]), int64(month), digits(b[:2]), b[12:20])
	return timeUS - offsetUS, ok && ok2
}

var months = [...]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

// readISO reads 2026-10-10T13:55:36-07:00, with or without a fraction; without a zone it is UTC.
func readISO(b []byte) (int64, bool) {
	const date, whole = len("2026-10-10"), len("2026-10-10T13:55:36")
	if len(b) < whole || b[7] != '-' || b[date] != 'T' && b[date] != ' ' {
		return 0, false
	}
	timeUS, ok := instant(digits(b[:4]), digits(b[5:7]), digits(b[8:date]), b[date+1:whole])
	rest := b[whole:]
	if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
		n := 1
		for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
			n++
		}
		timeUS += fractionUS(rest[1:n])
		rest = rest[n:]
	}
	offsetUS, ok2 := zoneOf(bytes.TrimPrefix(rest, []byte(" ")))
	return timeUS - offsetUS, ok && ok2
}

// zoneOf reads -0700, -07:00, Z or nothing.
func zoneOf(b []byte) (offsetUS int64, ok bool) {
	if len(b) == 0 || len(b) == 1 && (b[0] == 'Z' || b[0] == 'z') {
		return 0, true
	}
	if len(b) == 6 && b[3] == ':' {
		b = []byte{b[0], b[1], b[2], b[4], b[5]}
	}
	if len(b) != 5 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	hours, minutes := digits(b[1:3]), digits(b[3:])
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
		return 0, false
	}
	offsetUS = (hours*60 + minutes) * 60e6
	if b[0] == '-' {
		offsetUS = -offsetUS
	}
	return offsetUS, true
}

// readNumber reads 1790000000.123.
func readNumber(b []byte) (int64, bool) {
	whole, fraction, _ := bytes.Cut(b, []byte("."))
	n := digits(whole)
	if n < 0 || len(fraction) > 0 && digits(fraction[:min(len(fraction), 18)]) < 0 {
		return 0, false
	}
	switch {
	case len(whole) <= 11:
		return n*1e6 + fractionUS(fraction), true
	case len(whole) <= 14:
		return n * 1e3, true
	case len(whole) <= 17:
		return n, true
	}
	return n / 1e3, true
}

// instant is a date and 13:55:36 in UTC.
func instant(year, month, day int64, hms []byte) (int64, bool) {
	hour, minute, second := digits(hms[:2]), digits(hms[3:5]), digits(hms[6:8])
	if year < 0 || month < 1 || month > 12 || day < 1 || day > 31 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
		second < 0 || second > 60 || hms[2] != ':' || hms[5] != ':' {
		return 0, false
	}
	t := time.Date(int(year), time.Month(month), int(day), int(hour), int(minute), int(second), 0, time.UTC)
	return t.UnixMicro(), t.Day() == int(day) || second == 60
}

// digits is a whole number of 18 digits at most, -1 if it is none.
func digits(b []byte) int64 {
	if len(b) == 0 || len(b) > 19 {
		return -1
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int64(c-'0')
	}
	return n // 19 digits may have overflown below 0
}

// fractionUS is the microseconds of .123456, the digits after the point.
func fractionUS(fraction []byte) int64 {
	var us int64
	for i := range 6 {
		us *= 10
		if i < len(fraction) {
			us += int64(fraction[i] - '0')
		}
	}
	return us
}
