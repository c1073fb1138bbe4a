package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed report.html
var page string

// Style is how pages of authz look, in light and dark.
//
//go:embed style.css
var Style string

var pages = template.Must(template.New("report").Funcs(template.FuncMap{
	"style":           func() template.CSS { return template.CSS(Style) },
	"picture":         newPicture,
	"notes":           func(of interface{ notes() []string }) []string { return of.notes() },
	"title":           LimitReport.title,
	"suggestionTitle": LimitReport.suggestionTitle,
	"what":            Suggestion.what,
	"numbers":         Suggestion.numbers,
	"refusedKeys":     Suggestion.refused,
	"differenceTitle": Difference.title,
	"refuses":         RuleReport.refuses,
	"shareOf":         shareOf,
	"count":           count,
}).Parse(page))

// WriteHTML writes the report as a page that needs nothing else: no script, no network.
func (r *Report) WriteHTML(w io.Writer) error { return pages.Execute(w, r) }

// A picture is a limit over time, as paths of SVG.
type picture struct {
	Width                     time.Duration // of a point
	Admitted, Refused, Demand string
	MostRequests, MostDemand  int64
	Limit, LimitText          int64 // where the line of the limit is, and its number
	Times                     []pictureTime
}

type pictureTime struct {
	X            int64
	Anchor, Text string
}

// Where the two charts stand: report.html draws their axes.
const (
	left, right          = 60, 950
	topHigh, bottomHigh  = 24, 150 // requests
	topBelow, bottomLows = 194, 310
)

// newPicture is nil for a limit that counted nothing.
func newPicture(l LimitReport, r *Report) *picture {
	s := l.picture
	if len(s.bins) == 0 {
		return nil
	}
	p := &picture{Width: time.Duration(s.widthUS) * time.Microsecond, MostDemand: 100}
	for _, b := range s.bins {
		p.MostRequests = max(p.MostRequests, b.requests)
		p.MostDemand = max(p.MostDemand, b.peak/10)
	}
	height := func(n, most, top, bottom int64) int64 { return bottom - scaled(n, most, bottom-top) }
	var admitted, refused, demand []int64
	for _, b := range s.bins {
		admitted = append(admitted, height(b.requests-b.refused, p.MostRequests, topHigh, bottomHigh))
		refused = append(refused, height(b.requests, p.MostRequests, topHigh, bottomHigh))
		demand = append(demand, height(b.peak/10, p.MostDemand, topBelow, bottomLows))
	}
	x := r.across(s)
	p.Admitted, p.Refused = steps(x, admitted, bottomHigh)+" Z", steps(x, refused, bottomHigh)+" Z"
	p.Demand = steps(x, demand, bottomLows)
	p.Limit = height(100, p.MostDemand, topBelow, bottomLows)
	if p.LimitText = p.Limit + 4; p.MostDemand > 100 {
		p.LimitText = max(p.LimitText, topBelow+16) // below the number of the top
	}
	for i, anchor := range [...]string{"start", "middle", "end"} {
		at := r.fromUS + (r.toUS-r.fromUS)*int64(i)/2
		p.Times = append(p.Times, pictureTime{left + (right-left)*int64(i)/2, anchor, time.UnixMicro(at).UTC().Format("2006-01-02 15:04:05")})
	}
	return p
}

// across says where the bins of a series begin, and where the last ends.
func (r *Report) across(s *series) []int64 {
	all := max(1, r.toUS-r.fromUS)
	var x []int64
	for i := range len(s.bins) + 1 {
		at := min(all, max(0, s.fromUS+int64(i)*s.widthUS-r.fromUS))
		x = append(x, left+scaled(at, all, right-left))
	}
	x[len(s.bins)] = max(x[len(s.bins)], min(right, x[len(s.bins)-1]+1)) // a point at least
	return x
}

// steps draws heights as steps between the xs, from bottom to bottom.
func steps(x, heights []int64, bottom int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%d %d", x[0], bottom)
	for i, y := range heights {
		fmt.Fprintf(&b, " V%d H%d", y, x[i+1])
	}
	fmt.Fprintf(&b, " V%d", bottom)
	return b.String()
}
