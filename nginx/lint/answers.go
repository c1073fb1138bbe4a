package lint

import (
	"slices"
	"strings"

	"authz/nginx"
)

// ours are the headers of a refusal, in lower case.
var ours = []string{"retry-after", "ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-authz-limit"}

func isOurs(d *nginx.Directive) bool {
	return d.Name() == "add_header" && len(d.Words) > 2 && slices.Contains(ours, strings.ToLower(d.Words[1]))
}

// refusalHeaders looks for headers of a refusal that do not come with one.
func (w *linter) refusalHeaders(l *level) {
	each(l.Block, func(d *nginx.Directive) {
		if isOurs(d) && !slices.Contains(d.Words[3:], "always") {
			w.add(d, "add_header %s without always: a 429 does not have it; want always at its end", d.Words[1])
		}
		if isOurs(d) && d.Words[2] == "$limit_req_status" {
			w.add(d, "add_header %s $limit_req_status: a client sees PASSED; want a number, which limit_req does not tell and authz does", d.Words[1])
		}
	})
}

// errorPage is what nginx takes for a status: the first that names it, of the nearest level that has any.
func (l *level) errorPage(status string) *nginx.Directive {
	for _, d := range l.inForce("error_page") {
		if slices.Contains(d.Words[1:len(d.Words)-1], status) {
			return d
		}
	}
	return nil
}

// refusals looks at what becomes of a refusal in a level.
func (w *linter) refusals(l, check *level) {
	const want = "want error_page 403 = @authz_denied;"
	page := l.errorPage("403")
	own := l.own("error_page")
	switch {
	case page == nil && len(own) > 0:
		w.add(own[0], "error_page in %s drops those of the server: a limited client sees a 403; %s there too", l, want)
	case page == nil && (l.Name() == "server" || l.up.check() != check):
		w.add(l.Directive, "no error_page 403 for %s: a limited client sees a 403; %s", l, want)
	case page != nil:
		w.refusalPage(l, page)
	}
}

// refusalPage looks at where error_page 403 leads to.
func (w *linter) refusalPage(l *level, page *nginx.Directive) {
	to := page.Words[len(page.Words)-1]
	change := ""
	if before := page.Words[len(page.Words)-2]; strings.HasPrefix(before, "=") {
		change = before
	}
	if !strings.HasPrefix(to, "@") {
		at := l.server.meets(to)
		switch {
		case len(change) < 2:
			w.add(page, "error_page 403 %s comes first: a limited client sees a 403; want it below error_page 403 = @authz_denied;", to)
		case at != nil && at.check() != nil && len(at.own("return")) == 0 && len(named(at.check().Block, "if")) == 0:
			w.add(page, "error_page 403 %s: that page is checked itself, and refused; want auth_request off; in %s", to, at)
		}
		return
	}
	at := l.namedLocation(to)
	if at == nil {
		w.add(page, "error_page 403 %s: there is no such location, and a refusal is a 500; want location %s { … }", to, to)
		return
	}
	if last := at.own("return"); len(change) < 2 && len(last) > 0 && !slices.Contains(returned(at), 429) {
		w.add(page, "error_page 403 %s: that location returns no 429, and a limited client sees a %d; want if ($authz_show = 429) { return 429; } in it", to, returnStatus(last[0]))
	}
}

// returned are the statuses that a location may return.
func returned(l *level) (all []int) {
	each(l.Block, func(d *nginx.Directive) {
		if d.Name() == "return" {
			all = append(all, returnStatus(d))
		}
	})
	return all
}

// isAnswer says whether auth_request knows a status; anything else is a 500 at the client.
func isAnswer(status int) bool { return status < 300 || status == 401 || status == 403 }

// dead looks at what becomes of a check that nginx could not make.
func (w *linter) dead(check *level) {
	each(check.Block, func(d *nginx.Directive) {
		switch {
		case d.Name() != "return":
		case slices.Contains(check.Block, d):
			w.add(d, "return in %s answers instead of authz; want it gone", check)
		case !isAnswer(returnStatus(d)):
			w.add(d, "return %d in %s: auth_request makes 500 of it; want 200 or 403", returnStatus(d), check)
		}
	})
	var missing []string
	for _, status := range []string{"500", "502", "504"} {
		page := check.errorPage(status)
		switch {
		case page != nil:
			w.deadPage(check, page, status)
		case status != "500": // which auth_request makes of it anyway
			missing = append(missing, status)
		}
	}
	if len(missing) > 0 {
		w.add(check.Directive, "no error_page %s for %s: while authz is away every client sees 500; want error_page 502 504 = @authz_dead; in it", strings.Join(missing, " "), check)
	}
}

// deadPage looks at where the error_page of a check leads to.
func (w *linter) deadPage(check *level, page *nginx.Directive, status string) {
	at := check.namedLocation(page.Words[len(page.Words)-1])
	if at == nil {
		return
	}
	for _, got := range returned(at) {
		if !isAnswer(got) {
			w.add(page, "error_page for the check ends in return %d: auth_request makes 500 of it; want return 403 in %s", got, at)
		} else if status == "500" && got < 300 {
			w.add(page, "error_page 500 for the check ends in return %d: nginx without a connection or file left lets everybody pass; want that for 502 and 504 alone", got)
		}
	}
}

// drops looks for what the level drops of ours by directives of its own.
func (w *linter) drops(l *level) {
	if l.Name() != "location" {
		return
	}
	w.dropsHeaders(l, l.String(), l.Block, l.up)
	for _, d := range named(l.Block, "if") {
		w.dropsHeaders(l, "if in "+l.String(), d.Block, l)
	}
	own := l.own("auth_request_set")
	above := l.up.inForce("auth_request_set")
	if at := slices.IndexFunc(above, isCapture); len(own) > 0 && at >= 0 && !slices.ContainsFunc(own, isCapture) {
		w.add(own[0], "auth_request_set in %s drops those of the server, %s among them: a limited client sees a 403; want it in the server", l, above[at].Words[1])
	}
}

// isCapture says whether an auth_request_set keeps what the client is to see.
func isCapture(d *nginx.Directive) bool {
	return d.Words[1] == "$authz_status" || strings.HasSuffix(d.Words[len(d.Words)-1], "_x_authz_status")
}

func (w *linter) dropsHeaders(l *level, at string, block []*nginx.Directive, up *level) {
	drops := named(block, "add_header")
	if len(drops) == 0 || slices.ContainsFunc(drops, isOurs) || l.arg("add_header_inherit", "on") == "merge" {
		return
	}
	for ; up != nil; up = up.up {
		if theirs := up.own("add_header"); len(theirs) > 0 {
			if slices.ContainsFunc(theirs, isOurs) {
				w.add(drops[0], "add_header in %s drops those of %s, RateLimit among them; want include authz/authz_ratelimit.conf; there too", at, up)
			}
			return
		}
	}
}
