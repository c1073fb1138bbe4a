package replay

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"authz/internal/replay/accesslog"
)

// A Log is an access log, plain or compressed by gzip.
type Log struct {
	Name string
	From io.Reader
}

const (
	chunkBytes  = 256 << 10 // of lines that are parsed in one go
	mostGuessed = 16        // chunks whose format is looked for
)

// A lineReader cuts a log into chunks of whole lines.
type lineReader struct {
	name  string
	from  io.Reader
	rest  []byte // what has been read after the last whole line
	ended bool

	zipped  bool
	damaged error // why gzip ended too early; nil: it did not
}

// openLog sees by its first bytes whether a log is compressed.
func openLog(l Log) (*lineReader, error) {
	from := bufio.NewReaderSize(l.From, 64<<10)
	magic, err := from.Peek(2)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", l.Name, err)
	}
	r := &lineReader{name: l.Name, from: from}
	if r.zipped = bytes.Equal(magic, []byte{0x1f, 0x8b}); !r.zipped {
		return r, nil
	}
	unzipped, err := gzip.NewReader(from)
	if r.from = unzipped; err != nil {
		return r, r.end(err)
	}
	return r, nil
}

// next reads a chunk into buf. It ends with a whole line, or with the log; at the end it is empty. Of a
// line that is too long it has the beginning, which is still too long.
func (r *lineReader) next(buf []byte) ([]byte, error) {
	buf = append(buf[:0], r.rest...)
	r.rest = r.rest[:0]
	for {
		end := bytes.LastIndexByte(buf, '\n')
		if len(buf) >= chunkBytes && end >= 0 || r.ended {
			if !r.ended {
				r.rest = append(r.rest, buf[end+1:]...)
				buf = buf[:end+1]
			}
			if r.damaged != nil { // in this line, perhaps
				buf = buf[:end+1]
			}
			return buf, nil
		}
		if len(buf) > accesslog.LongestLine { // no line has ended yet
			return append(buf[:accesslog.LongestLine+1], '\n'), r.skipLine()
		}
		if err := r.fill(&buf); err != nil {
			return nil, err
		}
	}
}

// fill reads more after buf.
func (r *lineReader) fill(buf *[]byte) error {
	b := *buf
	if cap(b)-len(b) < 32<<10 {
		b = append(make([]byte, 0, max(2*cap(b), chunkBytes+64<<10)), b...)
	}
	n, err := r.from.Read(b[len(b):cap(b)])
	*buf = b[:len(b)+n]
	return r.end(err)
}

// end takes in what a read returned. What gzip has had of a file before its damage is good.
func (r *lineReader) end(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case err == nil:
	case err == io.EOF:
		r.ended = true
	case r.zipped && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt)):
		r.ended, r.damaged = true, err
	default:
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

// skipLine reads to the end of a line.
func (r *lineReader) skipLine() error {
	var buf [32 << 10]byte
	for !r.ended {
		n, err := r.from.Read(buf[:])
		if err := r.end(err); err != nil {
			return err
		}
		if at := bytes.IndexByte(buf[:n], '\n'); at >= 0 {
			r.rest = append(r.rest[:0], buf[at+1:n]...)
			return nil
		}
	}
	return nil
}
