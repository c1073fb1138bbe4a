package replay

// A word is what limit_req says in $limit_req_status.
type word uint8

const (
	noWord    word = 0
	otherWord word = 6 // any that limit_req never says: a log may hold anything
)

var wordNames = [otherWord + 1]string{"-", "DELAYED", "DELAYED_DRY_RUN", "PASSED", "REJECTED", "REJECTED_DRY_RUN", "other"}

func wordOf(said []byte) word {
	if said == nil {
		return noWord
	}
	for w := range otherWord {
		if string(said) == wordNames[w] {
			return w
		}
	}
	return otherWord
}
