package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"authz/internal/header"
	"authz/limits"
)

// peers says which peers are proxies whose headers are believed.
type peers struct {
	trusted *limits.Prefixes
	unix    bool
}

// newPeers reads addresses, prefixes and "unix".
func newPeers(list []string) (peers, error) {
	addresses := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "unix" })
	trusted, err := limits.ParsePrefixes(addresses)
	if err != nil {
		err = fmt.Errorf("%w, or unix", err)
	}
	return peers{trusted: trusted, unix: len(addresses) < len(list)}, err
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

var proxyPrefixes = [...]string{"x-original-", "x-forwarded-", "x-real-ip", "x-authz-"}

// onlyFromProxies says whether a header is taken from trusted peers only.
func onlyFromProxies(name []byte) bool {
	for _, prefix := range proxyPrefixes {
		if header.IsLower(name, prefix) {
			return true
		}
	}
	return false
}
