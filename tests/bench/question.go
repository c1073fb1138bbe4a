package main

import (
	"bytes"
	"fmt"
)

// A question is the request that a contestant is asked again and again, each time by another client.
type question struct {
	text string // CLIENT is where the client's address stands
	want int    // the status of every answer
	keys int    // how many clients there are, 1,000,000 at most
}

const client = "10.100.100.100"

// bytes is the request, and where the client's address begins in it.
func (q question) bytes() (text []byte, at int) {
	at = bytes.Index([]byte(q.text), []byte("CLIENT"))
	return []byte(q.text[:at] + client + q.text[at+len("CLIENT"):]), at
}

// setClient writes the address of client n: 10.1aa.1bb.1cc, so that all are of one length.
func setClient(address []byte, n int) {
	two := func(at, n int) { address[at], address[at+1] = byte('0'+n/10), byte('0'+n%10) }
	two(4, n/10000%100)
	two(8, n/100%100)
	two(12, n%100)
}

func clientAddress(n int) string {
	address := []byte(client)
	setClient(address, n)
	return string(address)
}

// A stride makes the i-th request that of client i*stride mod keys: every client is asked for once
// before the first is asked for again, and neighbours come far apart. It has no factor in common with
// a number of keys that is a power of ten.
const stride = 7919

// check is what nginx asks the service, without nginx.
const check = "GET /nginx HTTP/1.1\r\n" +
	"Host: authz\r\n" +
	"X-Original-Method: GET\r\n" +
	"X-Original-URI: /v1/items/7?page=2\r\n" +
	"X-Original-Host: example.com\r\n" +
	"X-Real-IP: CLIENT\r\n\r\n"

// visit is what a client asks nginx, which believes the header.
const visit = "GET /v1/items/7?page=2 HTTP/1.1\r\n" +
	"Host: example.com\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
	"Accept: */*\r\n" +
	"X-Forwarded-For: CLIENT\r\n\r\n"

// envoyQuestion is what envoyproxy/ratelimit is asked over HTTP.
func envoyQuestion() string {
	body := `{"domain":"bench","descriptors":[{"entries":[{"key":"ip","value":"CLIENT"}]}]}`
	return fmt.Sprintf("POST /json HTTP/1.1\r\nHost: ratelimit\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body)-len("CLIENT")+len(client), body)
}
