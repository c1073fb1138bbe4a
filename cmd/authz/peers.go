package main

import (
	"net"
	"net/netip"

	"authz/limits"
)

// peers says which peers are proxies whose headers are believed.
type peers struct {
	trusted *limits.Prefixes
	unix    bool
}

// of is the peer's address, the zero Addr for one on a unix socket, and whether it is trusted.
func (p *peers) of(remote net.Addr) (addr netip.Addr, trusted bool) {
	switch r := remote.(type) {
	case *net.TCPAddr:
		addr = r.AddrPort().Addr().Unmap().WithZone("")
		return addr, p.trusted.Contains(addr)
	case *net.UnixAddr:
		return addr, p.unix
	}
	return addr, false
}

var proxyPrefixes = [...]string{"X-Original-", "X-Forwarded-", "X-Real-Ip", "X-Authz-"}

// onlyFromProxies says whether a header is taken from trusted peers only.
func onlyFromProxies(name []byte) bool {
	for _, prefix := range proxyPrefixes {
		if len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
}
