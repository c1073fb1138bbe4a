package replay

// A word is what limit_req says in $limit_req_status.
type word uint8

// otherWord is any that limit_req never says: a log may hold anything.
const otherWord word = 5

var wordNames = [otherWord + 1]string{"DELAYED", "DELAYED_DRY_RUN", "PASSED", "REJECTED", "REJECTED_DRY_RUN", "other"}

func wordOf(said []byte) word {
	for w := range otherWord {
		if string(said) == wordNames[w] {
			return w
		}
	}
	return otherWord
}
