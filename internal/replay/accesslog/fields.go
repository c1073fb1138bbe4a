package accesslog

import (
	"maps"
	"slices"
	"strings"

	"authz/limits"
)

// A Place is where the value of a field of the log goes, in fields.values.
type Place int

const (
	Nowhere   Place = iota - 1 // no part of a request, or nobody reads it
	placeMsec                  // seconds of 1970, with a fraction
	placeISO
	placeLocal
	placeTime // in any of these forms
	PlaceAddress
	PlaceRequest // "GET /login HTTP/1.1"
	PlaceMethod
	PlaceTarget // as the client sent it
	placeURI    // what nginx's $uri is
	PlaceQuery
	PlaceHost
	PlaceHTTPHost
	PlaceServerName
	PlaceZone
	PlaceCookie   // the Cookie header
	PlaceLimitReq // what limit_req said
	placeNamed    // the first of the headers that limits read; cookies follow
)

// A FieldNames says which place a field of a log has, by its name.
type FieldNames struct {
	places  map[string]Place // in lower case, with "_" for "-"
	headers []string         // that limits read, in lower case: placeNamed and following
	Cookies []string         // that limits read: after the headers
}

// known is the names that are no header and no cookie: variables of nginx, and what others call them.
var known = map[string]Place{
	"msec": placeMsec, "time_iso8601": placeISO, "time_local": placeLocal,
	"time": placeTime, "ts": placeTime, "timestamp": placeTime, "@timestamp": placeTime, "datetime": placeTime, "date": placeTime, "epoch": placeTime,
	"remote_addr": PlaceAddress, "client_ip": PlaceAddress, "clientip": PlaceAddress, "remote_ip": PlaceAddress, "ip": PlaceAddress,
	"client_addr": PlaceAddress, "client": PlaceAddress, "clienthost": PlaceAddress,
	"request": PlaceRequest, "req": PlaceRequest, "request_line": PlaceRequest,
	"request_method": PlaceMethod, "method": PlaceMethod, "verb": PlaceMethod, "requestmethod": PlaceMethod,
	"request_uri": PlaceTarget, "url": PlaceTarget, "requestpath": PlaceTarget, "request_target": PlaceTarget,
	"uri": placeURI, "document_uri": placeURI, "path": placeURI, "request_path": placeURI,
	"args": PlaceQuery, "query_string": PlaceQuery, "query": PlaceQuery,
	"host": PlaceHost, "vhost": PlaceHost, "requesthost": PlaceHost, "http_host": PlaceHTTPHost, "server_name": PlaceServerName,
	"authz_zone": PlaceZone, "zone": PlaceZone,
	"http_cookie": PlaceCookie, "cookie": PlaceCookie,
	"limit_req_status": PlaceLimitReq,
}

// short is what some logs call a header.
var short = map[string]string{"user_agent": "user-agent", "agent": "user-agent", "ua": "user-agent", "referer": "referer", "referrer": "referer"}

func NewFieldNames(sets []*limits.Set) *FieldNames {
	n := &FieldNames{places: maps.Clone(known)}
	headers, cookies := map[string]bool{}, map[string]bool{}
	for _, set := range sets {
		for _, rule := range set.Reads() {
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
		at := n.Header(name)
		if at == Nowhere {
			at = placeNamed + Place(len(n.headers))
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
		n.add("cookie_"+underscored(name), placeNamed+Place(len(n.headers)+len(n.Cookies)))
		n.Cookies = append(n.Cookies, name)
	}
	return n
}

func (n *FieldNames) add(name string, at Place) {
	if _, taken := n.places[name]; !taken {
		n.places[name] = at
	}
}

// Header is the place of a header that is known by now.
func (n *FieldNames) Header(name string) Place {
	switch name {
	case "host":
		return PlaceHTTPHost
	case "cookie":
		return PlaceCookie
	}
	if i := slices.Index(n.headers, name); i >= 0 {
		return placeNamed + Place(i)
	}
	return Nowhere
}

func (n *FieldNames) Cookie(i int) Place { return placeNamed + Place(len(n.headers)+i) }

// Size is how many places there are.
func (n *FieldNames) Size() int { return int(n.Cookie(len(n.Cookies))) }

// of is the place of a field; the name may be in any case.
func (n *FieldNames) of(name []byte) Place {
	var few [64]byte
	if len(name) > len(few) {
		return Nowhere
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
	return Nowhere
}

func underscored(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// fields is what one line of a log says.
type fields struct {
	names  *FieldNames
	Values [][]byte // by place; nil: nothing
	Seen   []bool   // by place: some line has had the field, be it empty
	text   []byte   // the values that had to be unescaped, one after the other
	listed [][]byte // the strings of the arrays that are being read
}

func newFields(n *FieldNames) *fields {
	return &fields{names: n, Values: make([][]byte, n.Size()), Seen: make([]bool, n.Size())}
}

// begin forgets the line before.
func (f *fields) begin() {
	clear(f.Values)
	f.text, f.listed = f.text[:0], f.listed[:0]
}

// set takes a value, the first that a line has for its place. "-" is what logs write for none.
// A raw one is not escaped.
func (f *fields) set(at Place, value []byte, raw bool) {
	if at == Nowhere {
		return
	}
	f.Seen[at] = true
	if len(value) == 0 || len(value) == 1 && value[0] == '-' || f.Values[at] != nil {
		return
	}
	if !raw {
		value = f.unescape(value)
	}
	f.Values[at] = value
}

// headersOf are the places of what set reads, in the order of its HeaderNames.
func (n *FieldNames) headersOf(set *limits.Set) []Place {
	var places []Place
	for _, name := range set.HeaderNames() {
		places = append(places, n.Header(name))
	}
	return places
}
