package replay

import (
	"maps"
	"slices"
	"strings"

	"authz/limits"
)

// A place is where the value of a field of the log goes, in fields.values.
type place int

const (
	nowhere   place = iota - 1 // no part of a request, or nobody reads it
	placeMsec                  // seconds of 1970, with a fraction
	placeISO
	placeLocal
	placeTime // in any of these forms
	placeAddress
	placeRequest // "GET /login HTTP/1.1"
	placeMethod
	placeTarget // as the client sent it
	placeURI    // what nginx's $uri is
	placeQuery
	placeHost
	placeHTTPHost
	placeServerName
	placeZone
	placeCookie   // the Cookie header
	placeLimitReq // what limit_req said
	placeNamed    // the first of the headers that limits read; cookies follow
)

// A fieldNames says which place a field of a log has, by its name.
type fieldNames struct {
	places  map[string]place // in lower case, with "_" for "-"
	headers []string         // that limits read, in lower case: placeNamed and following
	cookies []string         // that limits read: after the headers
}

// known is the names that are no header and no cookie: variables of nginx, and what others call them.
var known = map[string]place{
	"msec": placeMsec, "time_iso8601": placeISO, "time_local": placeLocal,
	"time": placeTime, "ts": placeTime, "timestamp": placeTime, "@timestamp": placeTime, "datetime": placeTime, "date": placeTime, "epoch": placeTime,
	"remote_addr": placeAddress, "client_ip": placeAddress, "clientip": placeAddress, "remote_ip": placeAddress, "ip": placeAddress,
	"client_addr": placeAddress, "client": placeAddress, "clienthost": placeAddress,
	"request": placeRequest, "req": placeRequest, "request_line": placeRequest,
	"request_method": placeMethod, "method": placeMethod, "verb": placeMethod, "requestmethod": placeMethod,
	"request_uri": placeTarget, "url": placeTarget, "requestpath": placeTarget, "request_target": placeTarget,
	"uri": placeURI, "document_uri": placeURI, "path": placeURI, "request_path": placeURI,
	"args": placeQuery, "query_string": placeQuery, "query": placeQuery,
	"host": placeHost, "vhost": placeHost, "requesthost": placeHost, "http_host": placeHTTPHost, "server_name": placeServerName,
	"authz_zone": placeZone, "zone": placeZone,
	"http_cookie": placeCookie, "cookie": placeCookie,
	"limit_req_status": placeLimitReq,
}

// short is what some logs call a header.
var short = map[string]string{"user_agent": "user-agent", "agent": "user-agent", "ua": "user-agent", "referer": "referer", "referrer": "referer"}

func newFieldNames(policies []*policy) *fieldNames {
	n := &fieldNames{places: maps.Clone(known)}
	headers, cookies := map[string]bool{}, map[string]bool{}
	for _, p := range policies {
		for _, rule := range p.set.Reads() {
			for _, read := range rule.Reads {
				switch read.Kind {
				case limits.ReadHeader:
					headers[read.Name] = true
				case limits.ReadCookie:
					cookies[read.Name] = true
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at := n.header(name)
		if at == nowhere {
			at = placeNamed + place(len(n.headers))
			n.headers = append(n.headers, name)
		}
		plain := underscored(name)
		n.add("http_"+plain, at)
		n.add(plain, at)
	}
	for name, header := range short {
		if at, ok := n.places["http_"+underscored(header)]; ok {
			n.add(name, at)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cookies)) {
		n.add("cookie_"+underscored(name), placeNamed+place(len(n.headers)+len(n.cookies)))
		n.cookies = append(n.cookies, name)
	}
	return n
}

func (n *fieldNames) add(name string, at place) {
	if _, taken := n.places[name]; !taken {
		n.places[name] = at
	}
}

// header is the place of a header that is known by now.
func (n *fieldNames) header(name string) place {
	switch name {
	case "host":
		return placeHTTPHost
	case "cookie":
		return placeCookie
	}
	if i := slices.Index(n.headers, name); i >= 0 {
		return placeNamed + place(i)
	}
	return nowhere
}

func (n *fieldNames) cookie(i int) place { return placeNamed + place(len(n.headers)+i) }

// size is how many places there are.
func (n *fieldNames) size() int { return int(n.cookie(len(n.cookies))) }

// of is the place of a field; the name may be in any case.
func (n *fieldNames) of(name []byte) place {
	var few [64]byte
	if len(name) > len(few) {
		return nowhere
	}
	plain := few[:len(name)]
	for i, c := range name {
		switch {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case c == '-':
			c = '_'
		}
		plain[i] = c
	}
	if at, ok := n.places[string(plain)]; ok {
		return at
	}
	return nowhere
}

func underscored(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// fields is what one line of a log says.
type fields struct {
	names  *fieldNames
	values [][]byte // by place; nil: nothing
	seen   []bool   // by place: some line has had the field, be it empty
	text   []byte   // the values that had to be unescaped, one after the other
	listed [][]byte // the strings of the arrays that are being read
}

func newFields(n *fieldNames) *fields {
	return &fields{names: n, values: make([][]byte, n.size()), seen: make([]bool, n.size())}
}

// begin forgets the line before.
func (f *fields) begin() {
	clear(f.values)
	f.text, f.listed = f.text[:0], f.listed[:0]
}

// set takes a value, the first that a line has for its place. "-" is what logs write for none.
// A raw one is not escaped.
func (f *fields) set(at place, value []byte, raw bool) {
	if at == nowhere {
		return
	}
	f.seen[at] = true
	if len(value) == 0 || len(value) == 1 && value[0] == '-' || f.values[at] != nil {
		return
	}
	if !raw {
		value = f.unescape(value)
	}
	f.values[at] = value
}

// headersOf are the places of what set reads, in the order of its HeaderNames.
func (n *fieldNames) headersOf(set *limits.Set) []place {
	var places []place
	for _, name := range set.HeaderNames() {
		places = append(places, n.header(name))
	}
	return places
}
