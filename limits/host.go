package limits

import "bytes"

// appendHost makes a host comparable, as nginx makes $host: the name up to its port, in lower case, without one
// trailing dot. The port begins at the first colon. A name that begins with a bracket ends at the closing bracket.
func appendHost(dst, host []byte) []byte {
	name := hostName(host)
	name = bytes.TrimSuffix(name, []byte("."))
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

// hostName cuts off the port. An open bracket hides every colon.
func hostName(host []byte) []byte {
	if len(host) > 0 && host[0] == '[' {
		if end := bytes.IndexByte(host, ']'); end >= 0 {
			return host[:end+1]
		}
		return host
	}
	if colon := bytes.IndexByte(host, ':'); colon >= 0 {
		return host[:colon]
	}
	return host
}

// HostIsValid reports whether nginx accepts a Host header. It answers 400 to a host with two dots in a row, with a
// slash, a blank or a control character, and to one without a name. An empty host is absent, and valid.
//
// A name that begins with ~ is valid: nginx puts the server_name of a server, which may be a regular expression,
// into $host when a client of HTTP/1.0 sends no host.
func HostIsValid(host []byte) bool {
	if len(host) == 0 || host[0] == '~' {
		return true
	}
	for i, c := range host {
		if c <= ' ' || c == 0x7f || c == '/' || c == '.' && i > 0 && host[i-1] == '.' {
			return false
		}
	}
	name := hostName(host)
	return len(name) > 0 && string(name) != "."
}
