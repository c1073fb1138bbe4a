package replay

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"authz/internal/replay/accesslog"
	"authz/internal/testkit"
)

func pageOf(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What a client sends, a path or the name of a file is text on the page and nothing else.
func TestNothingFromALogIsMarkup(t *testing.T) {
	const evil = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>`
	format, err := accesslog.ParseFormat(`$msec "$request_uri" "$http_x_api_key" $limit_req_status <script>`)
	if err != nil {
		t.Fatal(err)
	}
	set := testkit.Limits(t, `
		[limit.a]
		key       = ["path:raw", "header:X-Plan"]
		missing   = "share"
		algorithm = "fixed_window"
		rate      = "1/m"`)
	line := `1791640536 "/` + strings.ReplaceAll(strings.ReplaceAll(evil, `"`, `\x22`), " ", "%20") + `" "-" ` + evil + " <script>\n"
	r, err := Run(Options{Limits: set, Against: set, Format: format, Suggest: &Suggest{}}, []Log{{evil, strings.NewReader(line + line)}})
	if err != nil {
		t.Fatal(err)
	}
	page := pageOf(t, r)
	for _, tag := range []string{"<script", "<img", "src=x onerror=alert(2)>", "http:", "https:", "@import", "url("} {
		if strings.Contains(page, tag) {
			t.Errorf("%q is in the page:\n%s", tag, page)
		}
	}
	for _, text := range []string{"&lt;script&gt;alert(1)", "default-src &#39;none&#39;", "prefers-color-scheme: dark", "path:raw=/%3Cscript%3Ealert%281%29"} {
		if !strings.Contains(page, text) && !strings.Contains(page, strings.ReplaceAll(text, "&#39;", "'")) {
			t.Errorf("%q is not in the page:\n%s", text, page)
		}
	}
}

func TestAPictureIsGoodXML(t *testing.T) {
	r, err := replayText(t, total, strings.Repeat("1791640536 203.0.113.9 /\n", 10)+"1791727000 203.0.113.8 /\n")
	if err != nil {
		t.Fatal(err)
	}
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(pageOf(t, r), -1)
	if len(pictures) != 2 {
		t.Fatalf("%d pictures, want one a limit", len(pictures))
	}
	for _, p := range pictures {
		for d := xml.NewDecoder(strings.NewReader(p)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v:\n%s", err, p)
			}
		}
	}
}

func TestThePageSaysWhatTheTableSays(t *testing.T) {
	set := testkit.Limits(t, `
		[deny.env]
		match = { path = "/.env" }

		[allow.health]
		match = { path = "/health" }

		[limit.a]
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "1/m"

		[override.a."203.0.113.8"]
		rate = "3/m"

		[schedule.a.sale]
		rate  = "2/m"
		from  = "2026-10-10T00:00"
		until = "2026-10-11T00:00"
		zone  = "UTC"`)
	format, err := accesslog.ParseFormat("$msec $remote_addr $request_uri")
	if err != nil {
		t.Fatal(err)
	}
	log := strings.Repeat("1791640536 203.0.113.9 /\n", 100) + "1791640536 203.0.113.8 /\n1791640536 203.0.113.8 /.env\n1791640536 203.0.113.8 /health\n"
	r, err := Run(Options{Limits: set, Against: testkit.Limits(t, "[allow.all]"), Format: format}, []Log{{"access.log", strings.NewReader(log)}})
	if err != nil {
		t.Fatal(err)
	}
	page := pageOf(t, r)
	for _, want := range []string{
		`<tr><td>deny.env</td><td class="n">1</td><td class="n">1</td><td class="n">100%</td><td></td><td></td></tr>`,
		`<tr><td>allow.health</td><td class="n">1</td><td></td><td></td><td></td><td></td></tr>`,
		"limit.a: fixed_window, 1/m</h2>\n<ul>\n<li>1 request by the numbers of an override</li>\n<li>100 requests by the numbers of a schedule</li>\n</ul>",
		"<h3>newly refused: 99 requests of 2 keys</h3>", // of the limit and of deny.env
		"<h3>no longer refused: 0 requests of 0 keys</h3>",
		`<th>refused by, key</th><th class="n">requests</th><th></th>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s\nis not in the page:\n%s", want, page)
		}
	}
	// 50 times the limit: its line is at the bottom, where a 0 would cover its number.
	if got := strings.Count(page, `text-anchor="end">0</text>`); got != 1 {
		t.Errorf("%d axes begin with 0, want that of the requests alone", got)
	}
}

// Ten seconds with a request each, but four in every second triple of them, of which two are refused.
func TestAPictureIsDrawnToScale(t *testing.T) {
	s := &series{}
	for i := range int64(10) {
		for n := range 1 + i/3%2*3 {
			s.count(1e15+i*1e6, n%2, 500*(n+1))
		}
	}
	r := &Report{fromUS: 1e15, toUS: 1e15 + 10e6}
	p := newPicture(LimitReport{picture: s}, r)
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
		}
	}
	check("admitted", p.Admitted, "M60 150 V119 H149 V119 H238 V119 H327 V87 H416 V87 H505 V87 H594 V119 H683 V119 H772 V119 H861 V87 H950 V150 Z")
	check("refused", p.Refused, "M60 150 V119 H149 V119 H238 V119 H327 V24 H416 V24 H505 V24 H594 V119 H683 V119 H772 V119 H861 V24 H950 V150 Z")
	check("demand", p.Demand, "M60 310 V281 H149 V281 H238 V281 H327 V194 H416 V194 H505 V194 H594 V281 H683 V281 H772 V281 H861 V194 H950 V310")
	if p.MostRequests != 4 || p.MostDemand != 200 || p.Limit != 252 {
		t.Errorf("%+v, want 4 requests, 200 percent and the limit half way down", p)
	}
}

// A year in seconds is 31 million: a picture has 512 points at most, and loses no request.
func TestASeriesIsAsFineAsItMayBe(t *testing.T) {
	s, day := &series{}, int64(86400e6)
	for i := range int64(365) {
		s.count(1e15+i*day, i%2, i)
	}
	requests, refused := int64(0), int64(0)
	for _, b := range s.bins {
		requests += b.requests
		refused += b.refused
	}
	if requests != 365 || refused != 182 || len(s.bins) > mostBins || len(s.bins) <= mostBins/2 || s.bins[len(s.bins)-1].peak != 364 {
		t.Errorf("%d requests, %d refused in %d bins; want 365 and 182 in 257 to 512", requests, refused, len(s.bins))
	}
}
