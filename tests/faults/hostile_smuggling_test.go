package faults

import (
	"fmt"
	"strings"
	"testing"

	"authz/tests/rig"
)

// smuggled are requests that two servers could take for one or for two. HIDDEN is a whole request in them.
var smuggled = map[string]string{
	"a length":                        "POST /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: LENGTH\r\n\r\nHIDDEN",
	"no length":                       "POST /a HTTP/1.1\r\nHost: site.test\r\n\r\nHIDDEN",
	"a length of 0":                   "POST /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: 0\r\n\r\nHIDDEN",
	"a GET with a length":             "GET /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: LENGTH\r\n\r\nHIDDEN",
	"chunked":                         "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHIDDEN",
	"a chunk":                         "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\nHEXLENGTH\r\nHIDDEN\r\n0\r\n\r\n",
	"a chunk with an extension":       "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n0;a=\"\r\n\r\nHIDDEN\"\r\n\r\n",
	"a trailer":                       "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\nHIDDEN",
	"a length, then chunked":          "POST /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: LENGTH\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHIDDEN",
	"chunked, then a length":          "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nHIDDEN",
	"two lengths":                     "POST /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: 0\r\nContent-Length: LENGTH\r\n\r\nHIDDEN",
	"two lengths in one":              "POST /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: 0, LENGTH\r\n\r\nHIDDEN",
	"a length with a sign":            "POST /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: +LENGTH\r\n\r\nHIDDEN",
	"chunked by another name":         "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: xchunked\r\nContent-Length: LENGTH\r\n\r\nHIDDEN",
	"chunked twice":                   "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\nHIDDEN",
	"a space before the colon":        "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding : chunked\r\nContent-Length: LENGTH\r\n\r\nHIDDEN",
	"a tab before chunked":            "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\nHIDDEN",
	"a folded line":                   "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding:\r\n chunked\r\nContent-Length: LENGTH\r\n\r\nHIDDEN",
	"bare line feeds":                 "POST /a HTTP/1.1\nHost: site.test\nContent-Length: LENGTH\n\nHIDDEN",
	"a bare carriage return":          "POST /a HTTP/1.1\r\nHost: site.test\r\nX: y\rTransfer-Encoding: chunked\r\nContent-Length: LENGTH\r\n\r\nHIDDEN",
	"HTTP/1.0, chunked":               "POST /a HTTP/1.0\r\nHost: site.test\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: LENGTH\r\n\r\nHIDDEN",
	"an expectation":                  "POST /a HTTP/1.1\r\nHost: site.test\r\nExpect: 100-continue\r\nContent-Length: LENGTH\r\n\r\nHIDDEN",
	"an upgrade":                      "GET /a HTTP/1.1\r\nHost: site.test\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\nHIDDEN",
	"a line in the target":            "GET /a%0d%0aX-Authz-Zone:%20free HTTP/1.1\r\nHost: site.test\r\n\r\nHIDDEN",
	"a header named by the next hop":  "GET /a HTTP/1.1\r\nHost: site.test\r\nConnection: X-Original-URI, X-Original-Method, Host\r\n\r\nHIDDEN",
	"a length that only authz reads":  "POST /a HTTP/1.1\r\nHost: site.test\r\nContent_Length: LENGTH\r\n\r\nHIDDEN",
	"five pipelined":                  strings.Repeat("GET /a HTTP/1.1\r\nHost: site.test\r\n\r\n", 4) + "HIDDEN",
	"headers that end with a null":    "POST /a HTTP/1.1\r\nHost: site.test\r\nX: \x00\r\nContent-Length: LENGTH\r\n\r\nHIDDEN",
	"an absolute target":              "POST http://other.test/a HTTP/1.1\r\nHost: site.test\r\nContent-Length: 0\r\n\r\nHIDDEN",
	"the check itself, hidden behind": "POST /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: 0\r\n\r\nGET /_authz HTTP/1.1\r\nHost: site.test\r\nX-Original-Method: GET\r\nX-Original-URI: /free\r\n\r\nHIDDEN",
}

// Whatever nginx makes of such a request, the application sees nothing that was not charged, and nobody is
// charged who was not let through: there is one limit, and it admits all.
func TestASmuggledRequestIsChargedOrSeenByNobody(t *testing.T) {
	conf := rig.SiteConf{Limits: `
		[limit.count]
		key       = []
		algorithm = "fixed_window"
		rate      = "1000000/366d"`, Server: rig.ClosedServer,
		Http: "keepalive_timeout 100ms; client_header_timeout 100ms; client_body_timeout 100ms; lingering_close off;"} // who says no more is let go
	service := rig.StartSite(t, conf)
	conf.Server = ""
	pack := rig.StartPack(t, rig.StartRedis(t), "", conf)
	for name, site := range map[string]*rig.Site{"service": service, "pack": pack} {
		total := 0
		for shape, text := range smuggled {
			const hidden = "GET /hidden HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n"
			text = strings.NewReplacer("HIDDEN", hidden, "HEXLENGTH", fmt.Sprintf("%x", len(hidden)), "LENGTH", fmt.Sprint(len(hidden))).Replace(text)
			asked, charged := site.App.Asked.Load(), site.Counted(t, "authz:v1:{count}:count:fw")
			statuses := site.Converse(t, text)
			asked, charged = site.App.Asked.Load()-asked, site.Counted(t, "authz:v1:{count}:count:fw")-charged
			if int(asked) != charged || strings.Contains(statuses, "500") {
				t.Errorf("%s, %s: the application was asked %d times, %d charged, answers %s", name, shape, asked, charged, statuses)
			}
			total += charged
		}
		if total < len(smuggled)/2 {
			t.Errorf("%s: %d charged in all, want some for most", name, total)
		}
	}
}
