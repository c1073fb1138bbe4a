package rig

import (
	"fmt"
	"testing"
)

// Redirects are the ways of a client request through nginx: its zone, its target, and what comes of it in
// redirectServer. Each is to be charged once.
var Redirects = []struct{ zone, Target, Want string }{
	{"plain", "/plain", "200 app GET /plain 0 bytes"},
	{"index", "/index/", "200 the index"},
	{"try_files", "/try/nothing", "200 the fallback"},
	{"try_named", "/named/nothing", "200 app GET /named/nothing 0 bytes"},
	{"error_page", "/nothing/here", "404 the 404 page"},
	{"error_page_of_app", "/intercept/status/404", "404 the 404 page"},
	{"rewrite_last", "/last", "200 app GET /after 0 bytes"},
	{"rewrite_break", "/break", "200 app GET /broken 0 bytes"},
	{"accel", "/accel?set=X-Accel-Redirect:/secret/page.html", "200 the secret"},
	{"accel_thrice", "/accel3?set=X-Accel-Redirect:/hop/1", "404 the 404 page"},
	{"ssi", "/ssi/page.html", "200 the index+app GET /plain 0 bytes+the index"},
	{"mirror", "/mirror", "200 app GET /mirror 0 bytes"},
	{"server_rewrite", "/from/server", "200 app GET /rewritten 0 bytes"},
}

// RedirectServer is what stands in server{} below the include.
const RedirectServer = `
	root html;
	error_page 404 /404.html;
	rewrite ^/from/server$ /rewritten;
	location /plain       { set $authz_zone plain; proxy_pass http://app; }
	location /index/      { set $authz_zone index; }
	location /try/        { set $authz_zone try_files; try_files $uri /fallback.html; }
	location /named/      { set $authz_zone try_named; try_files $uri @app; }
	location @app         { proxy_pass http://app; }
	location /nothing/    { set $authz_zone error_page; }
	location /intercept/  { set $authz_zone error_page_of_app; proxy_intercept_errors on; proxy_pass http://app/; }
	location = /last      { set $authz_zone other; rewrite ^ /after last; }
	location = /after     { set $authz_zone rewrite_last; proxy_pass http://app; }
	location = /break     { set $authz_zone rewrite_break; rewrite ^ /broken break; proxy_pass http://app; }
	location = /accel     { set $authz_zone accel; proxy_pass http://app; }
	location /secret/     { internal; }
	location = /accel3    { set $authz_zone accel_thrice; proxy_pass http://app/accel; }
	location = /hop/1     { internal; proxy_pass http://app/accel?set=X-Accel-Redirect:/hop/2; }
	location = /hop/2     { internal; proxy_pass http://app/accel?set=X-Accel-Redirect:/nothing; }
	location /ssi/        { set $authz_zone ssi; ssi on; }
	location = /mirror    { set $authz_zone mirror; mirror /copy; proxy_pass http://app; }
	location = /copy      { internal; proxy_pass http://app; }
	location = /rewritten { set $authz_zone server_rewrite; proxy_pass http://app; }`

var RedirectFiles = map[string]string{
	"html/index/index.html": "the index",
	"html/fallback.html":    "the fallback",
	"html/404.html":         "the 404 page",
	"html/secret/page.html": "the secret",
	"html/ssi/page.html": `<!--#include virtual="/index/index.html" -->+` +
		`<!--#include virtual="/plain" -->+<!--#include virtual="/index/index.html" -->`,
}

const RedirectLimits = `
	[limit.each]
	match     = { zone = "*" }
	key       = ["zone"]
	missing   = "skip"
	algorithm = "fixed_window"
	rate      = "10/366d"`

// SendRedirects sends each twice, and sees how often Redis was asked and what was charged.
func (s *Site) SendRedirects(t *testing.T) {
	t.Helper()
	for _, row := range Redirects {
		for protocol, send := range map[int]Sender{1: s.Send, 2: s.SendH2} {
			got := send(t, "GET "+row.Target, "")
			if text := fmt.Sprint(got.Status, " ", got.Body); text != row.Want {
				t.Errorf("%s over HTTP/%d: %s, want %s", row.zone, protocol, text, row.Want)
			}
		}
		if got := s.Counted(t, "authz:v1:{zone="+row.zone+"}:each:fw"); got != 2 {
			t.Errorf("%s: %d charged for 2 requests", row.zone, got)
		}
	}
	if got, want := s.Asked(t), 2*len(Redirects); got != want {
		t.Errorf("Redis decided %d requests, want %d", got, want)
	}
}
