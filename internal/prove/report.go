package prove

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"authz/internal/human"
	"authz/limits"
)

// A report is what came of a run.
type report struct {
	Limit     string         `json:"limit"`
	Algorithm string         `json:"algorithm"`
	Rate      string         `json:"rate"`
	Burst     int64          `json:"burst"`
	URL       string         `json:"url"`
	Attacks   []*attack      `json:"attacks"`
	Answers   map[string]int `json:"answers"` // how many of each
	Verdict   string         `json:"verdict"` // held, broken or unclear
	Why       string         `json:"why"`
	Most      int64          `json:"most_admitted"` // in an interval shorter than a window
	Promised  int64          `json:"promised"`
	WithinUS  int64          `json:"within_us"` // that interval
	Timeline  *timeline      `json:"timeline"`  // a window around it
}

// report judges what was seen.
func (p *proof) report() *report {
	r := &report{Algorithm: p.promise.algorithm.String(), Rate: p.promise.rate.String(), Burst: p.promise.rate.Burst,
		Attacks: p.attacks, Answers: map[string]int{}, Promised: p.promise.mostInAWindow()}
	for i := range p.seen {
		r.Answers[p.seen[i].answer]++
	}
	j, key := p.judge()
	if j.breach == nil {
		if b, of := p.warm(); b != nil {
			j.breach, key = b, of
		}
	}
	within := j.fullest
	if j.breach != nil && j.breach.kind != tooManyAligned {
		within = j.breach.within
	}
	r.Most, r.WithinUS = j.most, j.fullest.lengthUS()
	r.Timeline = newTimeline(p.seen, key, within, p.promise.rate.WindowUS, p.boundaryUS)
	elsewhere, unclear := p.elsewhere(), p.unclear(&j)
	switch {
	case p.switchesUS != 0 && p.began.UnixMicro()+p.seen.span().toUS >= p.switchesUS:
		r.Verdict, r.Why = "unclear", fmt.Sprintf("the last answers came after %s, when a schedule gives the limit other numbers",
			time.UnixMicro(p.switchesUS).UTC().Format(time.RFC3339))
	case elsewhere != "":
		r.Verdict, r.Why = "unclear", elsewhere
	case j.breach != nil:
		r.Verdict, r.Why = "broken", p.promise.broken(j.breach)
		if p.seen.count(sawRefused) == 0 {
			r.Why += "; nothing was ever refused: does the limit meet these requests?"
		}
	case p.early != nil && p.crowdGot >= p.promise.unused():
		r.Verdict, r.Why = "broken", fmt.Sprintf("a Retry-After of %ds was too short: nothing else was sent, and the request was refused again, "+
			"unless somebody else uses the key, or --retry-after-max has cut it", p.early.retryAfterS)
	case unclear != "":
		r.Verdict, r.Why = "unclear", unclear
	default:
		r.Verdict, r.Why = "held", p.promise.held(&j)
		switch initial := p.promise.rate.Initial; {
		case p.triesInitial():
			r.Why += fmt.Sprintf(", and a new key had %d", initial)
		case initial > 0:
			r.Why += fmt.Sprintf("; that a new key has %d was not tried: it takes --direct with addresses of its own", initial)
		}
	}
	return r
}

// judge judges key by key, and returns the judgment that is worst for the limit, and of whom: of equals the last,
// which has the flood.
func (p *proof) judge() (worst judgment, of int) {
	for key := 1; key <= p.keys; key++ {
		j := p.promise.judge(p.seen.ofKey(key).admitted())
		if of == 0 || j.breach != nil && worst.breach == nil || (j.breach == nil) == (worst.breach == nil) && j.most >= worst.most {
			worst, of = j, key
		}
	}
	return worst, of
}

// warm is a breach if keys that were new began with more than their initial, and whose it is. Two have to: that one
// was met before, by another run with addresses at random, is possible.
func (p *proof) warm() (first *breach, of int) {
	n := 0
	for key := 1; key <= p.keys && p.triesInitial(); key++ {
		seen := p.seen.ofKey(key)
		if b := p.promise.warm(seen.span().fromUS, seen.admitted()); b != nil {
			if n++; n == 1 {
				first, of = b, key
			}
		}
	}
	if n < 2 {
		return nil, 0
	}
	return first, of
}

// triesInitial says whether a new key begins with less, and the keys of the run can be taken for new.
func (p *proof) triesInitial() bool { return p.promise.rate.Initial > 0 && p.atRandom }

// elsewhere says so if no answer is one that a limit would have let through to the application, or would have
// refused: a site that sends everything to https, or has nothing at this path, need not have asked the limit.
func (p *proof) elsewhere() string {
	admitted := map[string]int{}
	for i := range p.seen {
		switch o := &p.seen[i]; {
		case o.verdict == sawRefused || o.verdict == sawAdmitted && o.status < 300:
			return ""
		case o.verdict == sawAdmitted:
			admitted[o.answer]++
		}
	}
	switch len(admitted) {
	case 0:
		return ""
	case 1:
		for answer, n := range admitted {
			if n == len(p.seen) {
				return fmt.Sprintf("nothing was ever refused and every answer is %s: does the limit meet these requests?", answer)
			}
		}
	}
	return fmt.Sprintf("nothing was ever refused and no answer is 2xx, but %s: does the limit meet these requests?", list(admitted))
}

// unclear says why a run shows too little to say that the promise was held, if it does.
func (p *proof) unclear(j *judgment) string {
	n := len(p.seen)
	switch admitted, refused := p.seen.count(sawAdmitted), p.seen.count(sawRefused); {
	case n == 0:
		return p.tooShort()
	case admitted+refused < int64(n):
		return fmt.Sprintf("%d of %s are no verdict on the limit: %s", int64(n)-admitted-refused, human.Count(n, "answer"), p.others())
	case admitted == 0:
		return fmt.Sprintf("nothing was admitted of %s: the limit was used up before, or refuses all", human.Count(n, "request"))
	case refused == 0:
		return fmt.Sprintf("nothing was refused of %s: the limit does not meet them, or they are too few: want --requests=%d", human.Count(n, "request"), min(p.promise.plan(), mostRequests))
	case j.most == 0:
		return fmt.Sprintf("every answer took as long as a window, %s: nothing can be said from here", human.Micros(p.promise.rate.WindowUS))
	}
	if p.early != nil {
		return fmt.Sprintf("a Retry-After of %ds was too short, but the crowd was admitted %d of the %d that an unused key admits: "+
			"somebody else may use the key", p.early.retryAfterS, p.crowdGot, p.promise.unused())
	}
	return p.tooShort()
}

// tooShort says what a run lacks that has not seen a whole window and the attacks on it, and what would be
// enough. Empty: it has.
func (p *proof) tooShort() string {
	watchedUS, windowUS := p.seen.span().lengthUS(), p.promise.rate.WindowUS
	var lacks, wants []string
	if watchedUS < windowUS {
		lacks = append(lacks, fmt.Sprintf("the limit was watched for %s, and its window is %s", human.Micros(watchedUS), human.Micros(windowUS)))
	}
	for _, name := range []string{"boundary", "flood"} {
		if !slices.Contains(p.whole, name) {
			lacks = append(lacks, "the "+name+" was not tried to the end")
		}
	}
	if len(lacks) == 0 {
		return ""
	}
	if plan := p.promise.plan(); plan > int64(p.requests) {
		wants = append(wants, fmt.Sprintf("--requests=%d", plan))
		if plan > mostRequests {
			wants[0] += fmt.Sprintf(", which is more than the %d that a run may send", mostRequests)
		}
	}
	if enough := p.promise.lasts(); p.lasts < enough {
		wants = append(wants, fmt.Sprintf("--for=%v", enough))
	}
	if len(wants) == 0 { // the way is slow, or many retries were refused
		wants = []string{fmt.Sprintf("--for=%v", p.lasts+time.Duration(windowUS)*time.Microsecond)}
	}
	return strings.Join(lacks, ", ") + ": want " + strings.Join(wants, " and ")
}

// others is the answers that are no verdict, and how many of each.
func (p *proof) others() string {
	counts := map[string]int{}
	for i := range p.seen {
		if p.seen[i].verdict == sawNothing {
			counts[p.seen[i].answer]++
		}
	}
	return list(counts)
}

// list is "200 (5), 429 (7)".
func list(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

// String is the algorithm and its numbers.
func (p *promise) String() string {
	return human.Limit(p.algorithm.String(), p.rate.String(), p.rate.Burst)
}

func (p *promise) broken(b *breach) string {
	window := human.Micros(p.rate.WindowUS)
	switch b.kind {
	case tooManyAligned:
		return fmt.Sprintf("%d were admitted in one window of %s, wherever such windows begin, where %s promises %d at most", b.number, window, p, b.promised)
	case tooManyUnused:
		return fmt.Sprintf("%d of a new key were admitted within %s, where %s, of which a new key has %d, promises %d at most",
			b.number, human.Micros(b.within.lengthUS()), p, p.rate.Initial, b.promised)
	case tooManyAnswered:
		return fmt.Sprintf("%d that were admitted were answered within %s, where %s promises %d at most", b.number, human.Micros(b.within.lengthUS()), p, b.promised)
	}
	return fmt.Sprintf("%d were admitted within %s, where %s promises %d at most", b.number, human.Micros(b.within.lengthUS()), p, b.promised)
}

func (p *promise) held(j *judgment) string {
	text := fmt.Sprintf("no more than %d were admitted within any %s, where %s promises %d at most",
		j.most, human.Micros(p.rate.WindowUS), p, p.mostInAWindow())
	if p.algorithm == limits.FixedWindow && j.most > p.rate.Count {
		text += fmt.Sprintf(": %d in each of its windows, so twice that where one ends and the next begins", p.rate.Count)
	}
	return text
}

// Write tells it to people; the attacks have been told.
func (r *report) Write(out io.Writer) {
	fmt.Fprintf(out, "answers   %s\n", list(r.Answers))
	if r.Most > 0 {
		fmt.Fprintf(out, "\nthe fullest %s: %d admitted within %s, # admitted, - refused\n%s\n", human.Micros(r.Timeline.SliceUS*pictureSlices), r.Most, human.Micros(r.WithinUS), r.Timeline)
	}
	fmt.Fprintf(out, "%s: %s\n", r.Verdict, r.Why)
}
