package main

import (
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
)

// A chart is a few bars of one scale.
type chart struct {
	title string
	bars  []bar
}

type bar struct {
	label string
	value float64
	ours  bool
}

// charts are what the picture shows: everything against a floor that was measured in the same row.
func (r *report) charts() []chart {
	alone := chart{title: "Checks a second, of what a handler that checks nothing answers"}
	nginx := chart{title: "The same through nginx, of auth_request to that handler"}
	add := func(c *chart, row, floor string, names ...string) {
		for _, name := range names {
			all := r.samples[row]
			if len(all[name]) > 0 && len(all[floor]) > 0 {
				c.bars = append(c.bars, bar{title(name), median(all[name], throughput) / median(all[floor], throughput), isOurs(name)})
			}
		}
	}
	add(&alone, "memory", "floor", "memory", "refused")
	add(&alone, "redis", "floor", "authz", "plain")
	add(&alone, "rivals", "floor", "ulule", "redis_rate", "throttled")
	add(&alone, "rivals", "floor", slices.Sorted(maps.Keys(r.options.rivals))...)
	add(&nginx, "nginx", "nginx-floor", "nginx-snippet", "nginx-authz", "nginx-plain")
	latency := func(row, name string) chart {
		c := chart{title: name}
		for _, who := range []string{"plain", "authz"} {
			if all := r.samples[row]; len(all[who]) > 0 && len(all["plain"]) > 0 {
				c.bars = append(c.bars, bar{title(who), median(all[who], p99) / median(all["plain"], p99), isOurs(who)})
			}
		}
		return c
	}
	return []chart{alone, nginx,
		latency("half", "p99, of that of one EVALSHA a request, at half of the rate that saturates it"),
		latency("ninety", "The same at 0.9 of that rate")}
}

// isOurs is whether a contestant is authz.
func isOurs(name string) bool {
	return strings.HasPrefix(title(name), "authz") || name == "nginx-authz"
}

// The measures of the picture, in pixels.
const (
	pictureWidth = 760
	margin       = 16
	labelWidth   = 270
	barWidth     = 400
	barHeight    = 16
	barStep      = 22
)

// style has a background of its own, so that the picture is readable on any page, also where a reader's
// colour scheme is not known.
const style = `<style>
.page { fill: #ffffff; stroke: #d1d9e0 }
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.ours { fill: #1a7f64 } .other { fill: #8c959f } .floor { stroke: #59636e; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; stroke: #3d444d }
  text { fill: #e6edf3 }
  .ours { fill: #3fb68b } .other { fill: #6e7681 } .floor { stroke: #9198a1 }
}
</style>
`

// svg draws the charts below each other. A dashed line stands at 1.
func svg(charts []chart) string {
	var b strings.Builder
	y := 0
	for _, c := range charts {
		if len(c.bars) == 0 {
			continue
		}
		y += 24
		fmt.Fprintf(&b, "<text class=\"title\" x=\"0\" y=\"%d\">%s</text>\n", y, html.EscapeString(c.title))
		y += 10
		most := 1.0
		for _, bar := range c.bars {
			most = max(most, bar.value)
		}
		top := y
		for _, bar := range c.bars {
			class := "other"
			if bar.ours {
				class = "ours"
			}
			width := bar.value / most * barWidth
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", labelWidth-8, y+13, html.EscapeString(bar.label))
			fmt.Fprintf(&b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>", class, labelWidth, y, width, barHeight)
			fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\">%.2f</text>\n", labelWidth+max(width, barWidth/most)+8, y+13, bar.value)
			y += barStep
		}
		one := labelWidth + barWidth/most
		fmt.Fprintf(&b, "<line class=\"floor\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", one, top-3, one, y-2)
		y += 8
	}
	width, height := pictureWidth+2*margin, y+2*margin
	head := fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"%d %d %d %d\" role=\"img\">\n",
		width, height, -margin, -margin, width, height)
	page := fmt.Sprintf("<rect class=\"page\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", -margin, -margin, width, height)
	return head + style + page + b.String() + "</svg>\n"
}
