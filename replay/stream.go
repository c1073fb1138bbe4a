package replay

import (
	"cmp"
	"container/heap"
	"slices"
)

// A stream is one log on its way: its chunks are read ahead and parsed by others, its requests come out of
// it in the order of their times.
type stream struct {
	log    *lineReader
	format *Format
	chunks [][]byte  // the first, which its format was found out from
	queue  chan *job // in the order of the log

	batch *batch // that requests are taken from
	at    int    // of the next in it

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
	flawed                [flaws]flawed
	err                   error
	done                  bool // no more batches
}

// mostKept bytes of a log's requests wait at most, and those of a chunk: a log may have any number of lines
// in the time that a line may come too late.
const mostKept = 64 << 20

// A job is a chunk that is being parsed.
type job struct {
	text   []byte // whole lines
	batch  *batch
	format *bound
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

func (r requests) Len() int           { return len(r) }
func (r requests) Less(i, j int) bool { return earlier(r[i], r[j]) < 0 }
func (r requests) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *requests) Push(x any)        { *r = append(*r, x.(request)) }
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
// It is nil at the end. take is called with each batch that is reached.
func (s *stream) ready(take func(*batch)) *request {
	for {
		first := s.first()
		if first != nil && (s.done || first.timeUS <= s.newestUS-s.reorderUS) {
			return first
		}
		if first != nil && s.kept > mostKept {
			return first
		}
		if s.done {
			return nil
		}
		s.pull(take)
	}
}

// pull lets one more request wait.
func (s *stream) pull(take func(*batch)) {
	if s.batch == nil {
		s.nextBatch(take)
		return
	}
	r := request{timeUS: s.batch.times[s.at], n: s.requests, stream: s, batch: s.batch, at: s.at}
	s.requests++
	if s.at++; s.at == len(s.batch.times) {
		s.batch = nil // it is used again when its last request has been decided
	}
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

// nextBatch waits for the next chunk.
func (s *stream) nextBatch(take func(*batch)) {
	j, ok := <-s.queue
	if !ok {
		s.done = true
		return
	}
	<-j.done
	if j.err != nil {
		s.err, s.done = j.err, true
		return
	}
	b := j.batch
	for i := range flaws {
		if f := b.flawed[i]; f.lines > 0 {
			if s.flawed[i].lines == 0 {
				s.flawed[i].first = s.lines + f.first
			}
			s.flawed[i].lines += f.lines
		}
	}
	s.lines += b.lines
	if len(b.times) > 0 {
		s.batch, s.at = b, 0
		s.kept += b.bytes
	}
	take(b)
}

// pop takes the first out.
func (s *stream) pop() request {
	first := s.first()
	r := *first
	s.clockUS = r.timeUS
	if !s.done && r.timeUS > s.newestUS-s.reorderUS {
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
