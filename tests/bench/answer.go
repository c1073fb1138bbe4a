package main

import (
	"bytes"
	"strconv"
)

var (
	headersEnd    = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
)

// readAnswer reads the HTTP answer at the beginning of b: its status and how long it is, or a length
// of 0 when more has to come, or -1 when it is none that the benchmark understands.
func readAnswer(b []byte) (status, length int) {
	end := bytes.Index(b, headersEnd)
	if end < 0 {
		return 0, 0
	}
	head := b[:end+2]
	at := bytes.Index(head, contentLength)
	if len(head) < len("HTTP/1.1 200\r\n") || string(head[:9]) != "HTTP/1.1 " || at < 0 {
		return 0, -1
	}
	status, err := strconv.Atoi(string(head[9:12]))
	if err != nil {
		return 0, -1
	}
	value := head[at+len(contentLength):]
	body, err := strconv.Atoi(string(value[:bytes.IndexByte(value, '\r')]))
	if err != nil || body < 0 {
		return 0, -1
	}
	if length = end + 4 + body; len(b) < length {
		return 0, 0
	}
	return status, length
}
