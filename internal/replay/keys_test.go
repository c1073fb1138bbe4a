package replay

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"authz/limits"
)

// Ten busy keys among so many others that there is no room for all: what is said of a key brackets what
// it was.
func TestABusyKeyIsNeverUndercounted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	table, want := newKeyTable(), map[string]int64{}
	const n = 200_000
	for i := range n {
		key := fmt.Sprint("rare", random.IntN(n))
		if i%4 == 0 {
			key = fmt.Sprint("busy", i/4%10)
		}
		row, _ := table.of([]byte(key))
		row.requests++
		want[key]++
	}
	if len(table.rows) != mostKeys || len(table.places) != mostKeys {
		t.Fatalf("%d rows, %d places, want %d", len(table.rows), len(table.places), mostKeys)
	}
	for i, row := range table.rows {
		if got := want[row.key]; row.requests < got || row.requests-row.over > got || row.over > n/mostKeys {
			t.Fatalf("row %d: %d requests, %d over, want a bracket of %d, no wider than %d", i, row.requests, row.over, got, n/mostKeys)
		}
	}
	for i, row := range table.top(10, func(r *keyRow) int64 { return r.requests }) {
		if row.requests != n/40 || row.over != 0 || row.key != fmt.Sprint("busy", i) {
			t.Errorf("%d: %+v, want busy%d with %d", i, row, i, n/40)
		}
	}
}

// What a key asked for in a window that has passed is freed while others ask.
func TestALogThatCountsNothingIsFreed(t *testing.T) {
	s := newKeySample()
	l := &limits.Limit{Algorithm: limits.SlidingWindow, Rate: limits.Rate{Count: 5, WindowUS: 60e6}}
	by := newRoomiest(&l.Rate)
	for i := range int64(1000) {
		s.of(fmt.Append(nil, i)).add(&limits.Check{Limit: l, Rate: &l.Rate, Cost: 1}, by, 1e15+i)
	}
	const later = 1e15 + 60e6 + 499 // when half of them have passed
	for range 1000 {
		s.sweep(later, 60e6)
	}
	left := 0
	for _, d := range s.all {
		if d.meters[byLog].Holds() {
			left++
		}
	}
	if left != 500 {
		t.Errorf("%d logs left, want 500", left)
	}
}

func TestTheTopIsThoseWithTheMostByName(t *testing.T) {
	table := newKeyTable()
	for i, key := range []string{"c", "a", "b", "a", "c", "none"} {
		row, isNew := table.of([]byte(key))
		if isNew != (i < 3 || key == "none") {
			t.Errorf("%d: %s is new: %v", i, key, isNew)
		}
		if key != "none" {
			row.requests++
		}
	}
	got := ""
	for _, row := range table.top(10, func(r *keyRow) int64 { return r.requests }) {
		got += fmt.Sprint(row.key, row.requests, " ")
	}
	if want := "a2 c2 b1 "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := len(table.top(2, func(r *keyRow) int64 { return r.requests })); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}
