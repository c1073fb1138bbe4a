package replay

// A comparison is where two policies differ.
type comparison struct {
	newly, noLonger difference
}

// A difference is requests that one policy refuses and the other does not, by who refuses them.
type difference struct {
	requests int64
	keys     *keyTable
	name     []byte
}

func newComparison() *comparison {
	return &comparison{difference{keys: newKeyTable()}, difference{keys: newKeyTable()}}
}

// take takes in the last request of both.
func (c *comparison) take(before, after *policy) {
	switch {
	case after.last.refused && !before.last.refused:
		c.newly.count(&after.last)
	case before.last.refused && !after.last.refused:
		c.noLonger.count(&before.last)
	}
}

// count takes in a refusal: by whom and, if it is a limit's, of which key.
func (d *difference) count(by *fate) {
	d.requests++
	d.name = append(append(d.name[:0], by.table...), by.name...)
	if by.check != nil {
		d.name = append(append(d.name, ' '), whose(by.check.Identity())...)
	}
	row, _ := d.keys.of(d.name)
	row.requests++
	row.refused++
}

// whose is a key for people to read.
func whose(identity []byte) []byte {
	if len(identity) == 0 {
		return []byte("everybody")
	}
	return identity
}
