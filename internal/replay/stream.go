package replay

import (
	"cmp"
	"container/heap"
	"slices"

	"authz/internal/replay/accesslog"
)

// A stream is one log on its way: its chunks are read ahead and parsed by others, its requests come out of
// it in the order of their times.
type stream struct {
	run    *run
	log    *lineReader
	format *accesslog.Format
	chunks [][]byte  // the first, which its format was found out from
	queue  chan *job // in the order of the log

	batches []*batch // that have been read, and of which not all requests wait yet
	at      int      // of the next in the first of them

	// Requests that wait until none that is older can come: those that came in order, and the others.
	inOrder   []request
	head      int
	others    requests
	newestUS  int64
	clockUS   int64
	reorderUS int64
	kept      int // bytes of the batches that have requests which wait

	lines, requests, late int64
	crowded               int64 // requests that were taken before they had waited for older ones
	exact                 bool  // some time has a fraction of a second
	flawed                [accesslog.Flaws]flawed
	err                   error
	ended                 bool // there are no more batches to read
}

// mostKept bytes of a log's requests wait at most, and those of a chunk: a log may have any number of lines
// in the time that a line may come too late.
const mostKept = 64 << 20

// A job is a chunk that is being parsed.
type job struct {
	text   []byte // whole lines
	batch  *batch
	format *accesslog.Bound
	done   chan struct{}
	err    error // of reading it
}

// A request is one of a batch.
type request struct {
	timeUS int64
	n      int64 // counts the requests of the stream
	stream *stream
	batch  *batch
	at     int
}

func earlier(a, b request) int {
	return cmp.Or(cmp.Compare(a.timeUS, b.timeUS), cmp.Compare(a.n, b.n))
}

// requests is a heap, the earliest first.
type requests []request

func (r requests) Len() int { return len(r) }

func (r requests) Less(i, j int) bool { return earlier(r[i], r[j]) < 0 }

func (r requests) Swap(i, j int) { r[i], r[j] = r[j], r[i] }

func (r *requests) Push(x any) { *r = append(*r, x.(request)) }

func (r *requests) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	*r = (*r)[:last]
	return x
}

// first is the earliest that waits; nil if none does.
func (s *stream) first() *request {
	var first *request
	if s.head < len(s.inOrder) {
		first = &s.inOrder[s.head]
	}
	if len(s.others) > 0 && (first == nil || earlier(s.others[0], *first) < 0) {
		first = &s.others[0]
	}
	return first
}

// ready reads on until the earliest is known: no older one can come, but too late; or until too many wait.
// It is nil at the end.
func (s *stream) ready() *request {
	for {
		first := s.first()
		if first != nil && (first.timeUS <= s.newestUS-s.reorderUS || s.kept > mostKept) || s.done() {
			return first
		}
		s.pull()
	}
}

// done says whether all requests wait that are left.
func (s *stream) done() bool { return s.err != nil || s.ended && len(s.batches) == 0 }

// pull lets one more request wait, or leaves it out.
func (s *stream) pull() {
	if len(s.batches) == 0 {
		s.nextBatch()
		return
	}
	b := s.batches[0]
	e := &b.requests[s.at]
	r := request{timeUS: e.timeUS, n: s.requests, stream: s, batch: b, at: s.at}
	good := e.timeUS <= s.newestUS+s.reorderUS || s.goesOn(e.timeUS)
	if s.at++; s.at == len(b.requests) { // it is used again when its last request has been decided
		s.batches, s.at = slices.Delete(s.batches, 0, 1), 0
	}
	if !good {
		s.flaw(accesslog.FromFuture, flawed{1, b.before + e.line})
		s.forget(b)
		return
	}
	s.requests++
	if r.timeUS < s.clockUS { // later requests have been decided
		r.timeUS = s.clockUS
		s.late++
	}
	s.newestUS = max(s.newestUS, r.timeUS)
	if n := len(s.inOrder); s.head == n || r.timeUS >= s.inOrder[n-1].timeUS {
		s.inOrder = append(s.inOrder, r)
	} else {
		heap.Push(&s.others, r)
	}
}

// neighbours are the requests after one that is ahead of its time, of which half have to follow it.
const neighbours = 100

// goesOn says whether the log goes on from the time of the next request, as it does after a night: half of its
// neighbours are no older, but for what may come late. At the end of the log those count that there are; the
// last of all moves the clock of nobody.
func (s *stream) goesOn(timeUS int64) bool {
	ahead, all := 0, 0
	for i, at := 0, s.at+1; all < neighbours; {
		switch {
		case i == len(s.batches):
			if s.nextBatch(); s.ended {
				return 2*ahead >= all
			}
		case at == len(s.batches[i].requests):
			i, at = i+1, 0
		default:
			if s.batches[i].requests[at].timeUS >= timeUS-s.reorderUS {
				ahead++
			}
			at++
			all++
		}
	}
	return 2*ahead >= all
}

// nextBatch waits for the next chunk.
func (s *stream) nextBatch() {
	j, ok := <-s.queue
	if !ok {
		s.ended = true
		return
	}
	<-j.done
	if j.err != nil {
		s.err, s.ended = j.err, true
		return
	}
	b := j.batch
	for i, f := range b.flawed {
		if f.lines > 0 {
			s.flaw(accesslog.Flaw(i), flawed{f.lines, s.lines + f.first})
		}
	}
	b.before = s.lines
	s.lines += b.lines
	s.exact = s.exact || b.exact
	s.run.take(b)
	if len(b.requests) == 0 {
		s.run.recycle(b)
		return
	}
	s.batches = append(s.batches, b)
	s.kept += b.bytes
}

func (s *stream) flaw(i accesslog.Flaw, f flawed) {
	if s.flawed[i].lines == 0 {
		s.flawed[i].first = f.first
	}
	s.flawed[i].lines += f.lines
}

// forget takes in that a request of b is decided, or left out.
func (s *stream) forget(b *batch) {
	if b.left--; b.left == 0 {
		s.kept -= b.bytes
		s.run.recycle(b)
	}
}

// pop takes the first out.
func (s *stream) pop() request {
	first := s.first()
	r := *first
	s.clockUS = r.timeUS
	if !s.done() && r.timeUS > s.newestUS-s.reorderUS {
		s.crowded++
	}
	if s.head < len(s.inOrder) && first == &s.inOrder[s.head] {
		if s.head++; s.head == len(s.inOrder) {
			s.inOrder, s.head = s.inOrder[:0], 0
		} else if s.head > 4096 && 2*s.head > len(s.inOrder) {
			s.inOrder, s.head = slices.Delete(s.inOrder, 0, s.head), 0
		}
	} else {
		heap.Pop(&s.others)
	}
	return r
}
