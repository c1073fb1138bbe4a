package docs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A siteLog is an access log in the making: lines in the format combined, and when each was written.
type siteLog struct {
	random *rand.Rand
	lines  []siteLine
}

type siteLine struct {
	at   time.Time
	text string
}

func newSiteLog() *siteLog { return &siteLog{random: rand.New(rand.NewPCG(1, 2))} }

func (l *siteLog) add(at time.Time, ip, request string, status int, agent string) {
	text := fmt.Sprintf("%s - - [%s] \"%s HTTP/1.1\" %d 612 \"-\" \"%s\"\n", ip, at.Format("02/Jan/2006:15:04:05 -0700"), request, status, agent)
	l.lines = append(l.lines, siteLine{at, text})
}

// page is a page and the four files that it needs.
func (l *siteLog) page(at time.Time, ip string) {
	l.add(at, ip, fmt.Sprintf("GET /shop/%d", l.random.IntN(200)), 200, "Mozilla/5.0")
	for _, file := range []string{"shop.css", "shop.js", "logo.svg", "photo.jpg"} {
		l.add(at.Add(200*time.Millisecond), ip, "GET /assets/"+file, 200, "Mozilla/5.0")
	}
}

// login is one that works at the last of so many attempts.
func (l *siteLog) login(at time.Time, ip string, attempts int) {
	for i := range attempts {
		status := 401
		if i == attempts-1 {
			status = 302
		}
		l.add(at.Add(time.Duration(i)*7*time.Second), ip, "POST /login", status, "Mozilla/5.0")
	}
}

// within is a moment within so many seconds.
func (l *siteLog) within(seconds int) time.Duration {
	return time.Duration(l.random.IntN(seconds*1000)) * time.Millisecond
}

func (l *siteLog) String() string {
	slices.SortStableFunc(l.lines, func(a, b siteLine) int { return a.at.Compare(b.at) })
	var b strings.Builder
	for _, line := range l.lines {
		b.WriteString(line.text)
	}
	return b.String()
}

// visitor is the address of a visitor: of five, one has IPv6.
func visitor(i int) string {
	if i%5 == 0 {
		return fmt.Sprintf("2001:db8:%x::1", i)
	}
	return fmt.Sprintf("192.0.2.%d", i)
}

// morningLog is forty minutes of a small shop: visitors, an office whose people all begin at nine, somebody who
// guesses passwords, a crawler, and five customers of the API, two of them heavy.
func morningLog() string {
	l := newSiteLog()
	begin := time.Date(2026, 10, 6, 8, 50, 0, 0, time.UTC)
	for i := range 130 {
		at := begin.Add(l.within(35 * 60))
		if i%12 != 0 {
			l.login(at, visitor(i), 1+l.random.IntN(10)/6+l.random.IntN(10)/9)
		}
		for range 3 + l.random.IntN(4) {
			at = at.Add(5*time.Second + l.within(30))
			l.page(at, visitor(i))
		}
	}
	nine := begin.Add(10 * time.Minute)
	for range 24 { // people in the office
		at := nine.Add(l.within(120))
		l.login(at, "198.51.100.20", 1)
		for at.Before(nine.Add(25 * time.Minute)) {
			at = at.Add(10*time.Second + l.within(150))
			l.page(at, "198.51.100.20")
		}
	}
	for i := range 480 {
		l.add(nine.Add(10*time.Minute+time.Duration(i)*500*time.Millisecond), "203.0.113.66", "POST /login", 401, "python-requests/2.31")
	}
	for minute := range 40 {
		for i := range 12 {
			l.add(begin.Add(time.Duration(minute)*time.Minute+time.Duration(i)*400*time.Millisecond), "203.0.113.80",
				fmt.Sprintf("GET /shop/%d", minute*12+i), 200, "ExampleBot/2.0")
		}
	}
	l.customers(begin)
	return l.String()
}

// customers are of the API: one sends 200 orders every ten minutes, one asks every four seconds, and three seldom.
func (l *siteLog) customers(begin time.Time) {
	for i := range 800 {
		at := begin.Add(time.Duration(i/200)*10*time.Minute + time.Duration(i%200)*100*time.Millisecond)
		l.add(at, "198.51.100.101", "POST /api/v1/orders", 201, "orders/4.1")
	}
	for i := range 600 {
		l.add(begin.Add(time.Duration(i)*4*time.Second), "198.51.100.102", "GET /api/v1/stock", 200, "Java/21")
	}
	for i := range 60 {
		l.add(begin.Add(l.within(40*60)), fmt.Sprintf("198.51.100.%d", 103+i%3), "GET /api/v1/stock", 200, "curl/8.5.0")
	}
}

// saleLog is the first minutes of last year's sale: many who had waited for midnight, and load their page
// again and again.
func saleLog() string {
	l := newSiteLog()
	midnight := time.Date(2025, 11, 28, 0, 0, 0, 0, time.FixedZone("", 3600))
	for i := range 120 {
		at := midnight.Add(l.within(120))
		for range 4 + l.random.IntN(12) {
			l.page(at, visitor(i))
			at = at.Add(time.Second + l.within(5))
		}
	}
	return l.String()
}
