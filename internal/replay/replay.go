// Package replay runs access logs through limits by the log's own clock: what would have been refused, to
// whom, and when.
//
// Run makes of each line the attributes that the service would have had, and asks the very matcher and
// in-memory store. It knows nothing of HTTP or Redis.
package replay

import (
	"bytes"
	"fmt"
	"runtime"

	"authz/internal/replay/accesslog"
	"authz/limits"
)

// Options say what is replayed.
type Options struct {
	Limits    *limits.Set
	Against   *limits.Set       // what Limits is compared with; nil: nothing
	Format    *accesslog.Format // nil: that of each log is found out from its first lines
	ReorderUS int64             // how much too late a line may come and still be put in its place; microseconds
	Suggest   *Suggest          // nil: nothing is suggested
}

// Suggest says which numbers to look for: the smallest that would have refused at most Keys of the keys,
// and Headroom more.
type Suggest struct{ Keys, Headroom Share }

// Run reads the logs to their ends. They are merged by their times. An error is about reading them; lines
// that cannot be understood are counted, but when there are no others.
func Run(o Options, logs []Log) (*Report, error) {
	r := newRun(o)
	streams, err := r.replay(logs)
	if err != nil {
		return nil, err
	}
	return r.report(streams)
}

// A run is a replay under way.
type run struct {
	Options
	names    *accesslog.FieldNames
	policies []*policy
	compared *comparison // nil without Against

	seen    []bool // fields by place
	unknown int64  // requests without an address
	said    [otherWord + 1]int64
	firstUS int64
	lastUS  int64

	free  chan *batch
	texts chan []byte
}

func newRun(o Options) *run {
	r := &run{Options: o, free: make(chan *batch, 16), texts: make(chan []byte, 16)}
	for _, set := range []*limits.Set{o.Limits, o.Against} {
		if set != nil {
			r.policies = append(r.policies, newPolicy(set, o.Suggest))
		}
	}
	if o.Against != nil {
		r.compared = newComparison()
	}
	r.names = accesslog.NewFieldNames(setsOf(r.policies))
	r.seen = make([]bool, r.names.Size())
	return r
}

// replay decides all requests, in the order of their times.
func (r *run) replay(logs []Log) ([]*stream, error) {
	streams, err := r.open(logs)
	if err != nil {
		return nil, err
	}
	defer r.start(streams)()
	for next := r.next(streams); next != nil; next = r.next(streams) {
		r.decide(next.pop())
	}
	for _, s := range streams {
		if s.err != nil {
			return nil, s.err
		}
	}
	return streams, nil
}

// open sees what each log is.
func (r *run) open(logs []Log) ([]*stream, error) {
	ahead := max(1, 2*runtime.GOMAXPROCS(0)/len(logs))
	var streams []*stream
	for _, l := range logs {
		lines, err := openLog(l)
		if err != nil {
			return nil, err
		}
		s := &stream{run: r, log: lines, format: r.Format, queue: make(chan *job, ahead), reorderUS: r.ReorderUS}
		if s.format == nil {
			if err := r.findFormat(s); err != nil {
				return nil, err
			}
		}
		streams = append(streams, s)
	}
	return streams, nil
}

// findFormat reads chunks until one has a format. They are the first to be parsed.
func (r *run) findFormat(s *stream) error {
	lines := 0
	for range mostGuessed {
		chunk, err := s.log.next(nil)
		if err != nil {
			return err
		}
		if len(chunk) == 0 {
			break
		}
		s.chunks = append(s.chunks, chunk)
		if s.format = accesslog.Detect(chunk, r.names); s.format != nil {
			return nil
		}
		lines += bytes.Count(bytes.TrimSuffix(chunk, []byte("\n")), []byte("\n")) + 1
	}
	if lines == 0 { // an empty log has no format
		return nil
	}
	return fmt.Errorf("%s: none of the first %d lines is combined, common, json or ltsv, want --format with the text of its log_format, or --format-from with the nginx.conf that has it", s.log.name, lines)
}

// start reads the logs and parses them in the background. The func that it returns ends that; it waits for
// nobody, since a pipe may say nothing for a long time.
func (r *run) start(streams []*stream) (stop func()) {
	jobs, stopped := make(chan *job), make(chan struct{})
	for _, s := range streams {
		go r.read(s, jobs, stopped)
	}
	for range runtime.GOMAXPROCS(0) {
		go r.parse(jobs, stopped)
	}
	return func() { close(stopped) }
}

func (r *run) parse(jobs <-chan *job, stopped <-chan struct{}) {
	m := newMatcher(r.names, r.policies)
	for {
		select {
		case j := <-jobs:
			m.fill(j.batch, j.text, j.format)
			select {
			case r.texts <- j.text: // for a chunk to come
			default:
			}
			j.text = nil
			close(j.done)
		case <-stopped:
			return
		}
	}
}

// read makes jobs of a log.
func (r *run) read(s *stream, jobs chan<- *job, stopped <-chan struct{}) {
	defer close(s.queue)
	if s.format == nil { // it is empty
		return
	}
	format := s.format.Bind(r.names)
	for {
		j := &job{batch: r.batch(), format: format, done: make(chan struct{})}
		if len(s.chunks) > 0 {
			j.text, s.chunks = s.chunks[0], s.chunks[1:]
		} else if j.text, j.err = s.log.next(r.text()); j.err == nil && len(j.text) == 0 {
			return
		}
		select {
		case s.queue <- j:
		case <-stopped:
			return
		}
		if j.err != nil {
			close(j.done)
			return
		}
		select {
		case jobs <- j:
		case <-stopped:
			return
		}
	}
}

// text is memory for a chunk; nil if none has been used before.
func (r *run) text() []byte {
	select {
	case text := <-r.texts:
		return text
	default:
		return nil
	}
}

// batch is an empty one, used before if there is one.
func (r *run) batch() *batch {
	select {
	case b := <-r.free:
		return b
	default:
		return newBatch(r.names)
	}
}

// recycle keeps a batch for the next chunk.
func (r *run) recycle(b *batch) {
	select {
	case r.free <- b:
	default:
	}
}

// next is the stream whose request is the next of all. It is nil at the end, or when a log cannot be read.
func (r *run) next(streams []*stream) *stream {
	var next *stream
	var best *request
	for _, s := range streams {
		first := s.ready()
		if s.err != nil {
			return nil
		}
		if first != nil && (best == nil || first.timeUS < best.timeUS) {
			next, best = s, first
		}
	}
	return next
}

// take counts what does not depend on the order of requests.
func (r *run) take(b *batch) {
	for i, seen := range b.seen {
		r.seen[i] = r.seen[i] || seen
	}
}

// decide lets each policy decide a request at its time.
func (r *run) decide(q request) {
	if r.firstUS == 0 {
		r.firstUS = q.timeUS
	}
	r.lastUS = q.timeUS
	e := &q.batch.requests[q.at]
	r.said[e.limitReq]++
	if e.unknown {
		r.unknown++
	}
	outcomes := q.batch.outcomes[q.at*len(r.policies):][:len(r.policies)]
	for i, p := range r.policies {
		p.decide(q.timeUS, &outcomes[i])
	}
	if r.compared != nil {
		r.compared.take(r.policies[1], r.policies[0])
	}
	q.stream.forget(q.batch)
}

// nothing is the error of logs without a single request.
func nothing(streams []*stream) error {
	for _, s := range streams {
		if err := s.nothing(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: no lines, want an access log", streams[0].log.name)
}

// nothing is the error of a log that has lines, and none that is a request.
func (s *stream) nothing() error {
	switch {
	case s.requests > 0:
	case s.log.damaged != nil && s.lines == 0:
		return fmt.Errorf("%s: gzip is damaged before its first line ends: %w, want a whole file (gzip -t tells) or a plain one", s.log.name, s.log.damaged)
	case s.lines > 0:
		return fmt.Errorf("%s: none of %d lines is a request in the format %s: %s", s.log.name, s.lines, s.format, tellFlaws(s.brokenLines()))
	}
	return nil
}
