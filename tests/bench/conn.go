package main

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// A conn is a connection of a load, which sends one request at a time.
type conn struct {
	number  int // its place in load.conns
	fd      int
	request []byte
	address []byte // the client's, in request
	answer  [4096]byte
	read    int           // of answer
	due     time.Duration // when the request under way was to be sent, from the start of the run
}

// open connects to host:port or unix:/path, and has epoll tell when something has come.
func (c *conn) open(epoll int, addr string) error {
	sockaddr, family, err := socketAddress(addr)
	if err != nil {
		return err
	}
	c.read = 0
	if c.fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	if err = c.connect(epoll, sockaddr, family); err != nil {
		unix.Close(c.fd)
	}
	return err
}

func (c *conn) connect(epoll int, sockaddr unix.Sockaddr, family int) error {
	if err := unix.Connect(c.fd, sockaddr); err != nil {
		return err
	}
	if family == unix.AF_INET {
		if err := unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return err
		}
	}
	if err := unix.SetNonblock(c.fd, true); err != nil {
		return err
	}
	return unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.number)})
}

func socketAddress(addr string) (unix.Sockaddr, int, error) {
	network, address := splitAddr(addr)
	if network == "unix" {
		return &unix.SockaddrUnix{Name: address}, unix.AF_UNIX, nil
	}
	a, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return nil, 0, err
	}
	if !a.IP.IsLoopback() {
		return nil, 0, fmt.Errorf("%s: want a loopback address, nothing else is ever asked", addr)
	}
	return &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}, unix.AF_INET, nil
}
