package limits

import "bytes"

// Target splits what nginx calls $request_uri as nginx does: path is its $uri less one trailing slash
// ("/" stays), query its $args. So the path ends at the first raw "#" or "?", is percent-decoded once,
// its slashes are merged and its dot segments resolved; a target that begins with "?" (which is left
// of GET http://host?query) has path "/". The path is written to dst[:0], the query is part of target.
// ok is false for what nginx answers with 400.
func Target(dst, target []byte) (path, query []byte, ok bool) {
	if !printable(target) || len(target) == 0 || target[0] != '/' && target[0] != '?' {
		return nil, nil, false
	}
	path = append(dst[:0], '/')
	rest := target
	for len(rest) > 0 && rest[0] != '?' && rest[0] != '#' {
		c := rest[0]
		rest = rest[1:]
		if c == '%' {
			if c, ok = unhex(rest); !ok || c == 0 {
				return nil, nil, false
			}
			rest = rest[2:]
		}
		if c != '/' {
			path = append(path, c)
			continue
		}
		if path, ok = endSegment(path); !ok {
			return nil, nil, false
		}
		if path[len(path)-1] != '/' {
			path = append(path, '/')
		}
	}
	if path, ok = endSegment(path); !ok {
		return nil, nil, false
	}
	if n := len(path); n > 1 && path[n-1] == '/' {
		path = path[:n-1]
	}
	return path, args(rest), true
}

// printable says whether there is no byte that a request line may not have.
func printable(target []byte) bool {
	for _, c := range target {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

// args is what follows a "?", up to a "#".
func args(rest []byte) []byte {
	if len(rest) == 0 || rest[0] != '?' {
		return nil
	}
	query, _, _ := bytes.Cut(rest[1:], []byte("#"))
	return query
}

// endSegment resolves the last segment of path if it is "." or "..": the path then ends with the
// slash before it, or that of its parent. The root has no parent.
func endSegment(path []byte) ([]byte, bool) {
	n := len(path)
	switch {
	case n >= 2 && path[n-1] == '.' && path[n-2] == '/':
		return path[:n-1], true
	case n >= 3 && path[n-1] == '.' && path[n-2] == '.' && path[n-3] == '/':
		for n -= 4; n >= 0; n-- {
			if path[n] == '/' {
				return path[:n+1], true
			}
		}
		return nil, false
	}
	return path, true
}

// unhex reads two hex digits.
func unhex(b []byte) (byte, bool) {
	if len(b) < 2 {
		return 0, false
	}
	high, ok1 := hexDigit(b[0])
	low, ok2 := hexDigit(b[1])
	return high<<4 | low, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// SplitURL cuts http://host/path?query into host and target; a target alone has no host. The host in it
// is what a client sent, and nginx lets it contain "?" and "#": a URL that can be read in two ways is
// refused, or "Host: x?" would hide the path.
func SplitURL(url []byte) (host, target []byte, ok bool) {
	if len(url) == 0 || url[0] == '/' || url[0] == '?' {
		return nil, url, true
	}
	_, rest, ok := bytes.Cut(url, []byte("://"))
	if !ok {
		return nil, nil, false
	}
	switch end := bytes.IndexAny(rest, "/?#"); {
	case end < 0:
		return rest, []byte("/"), true
	case rest[end] == '/' || rest[end] == '?' && bytes.IndexByte(rest, '/') < 0:
		return rest[:end], rest[end:], true
	}
	return nil, nil, false
}
