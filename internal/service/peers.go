package service

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"authz/internal/header"
	"authz/limits"
)

// Peers says which peers are proxies whose headers are believed.
type Peers struct {
	trusted *limits.Prefixes
	Unix    bool
}

// NewPeers reads addresses, prefixes and "unix".
func NewPeers(list []string) (Peers, error) {
	addresses := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "unix" })
	trusted, err := limits.ParsePrefixes(addresses)
	if err != nil {
		err = fmt.Errorf("%w, or unix", err)
	}
	return Peers{trusted: trusted, Unix: len(addresses) < len(list)}, err
}

// of is the peer's address, the zero Addr for one on a unix socket, and whether it is trusted.
func (p *Peers) of(remote net.Addr) (addr netip.Addr, trusted bool) {
	switch r := remote.(type) {
	case *net.TCPAddr:
		addr = r.AddrPort().Addr().Unmap().WithZone("")
		return addr, p.trusted.Contains(addr)
	case *net.UnixAddr:
		return addr, p.Unix
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
