package rig

import (
	"sync"
	"sync/atomic"
	"testing"
)

// ManyAtOnce asks n times in all from 64 clients, by turns through each of the instances, and counts
// the answers. line and header are those of request i.
func ManyAtOnce(t *testing.T, n int, instances []*AuthzServer, request func(i int) (line string, header []string)) map[string]int {
	t.Helper()
	var next atomic.Int64
	var mu sync.Mutex
	answers := map[string]int{}
	var clients sync.WaitGroup
	for c := range 64 {
		ask := instances[c%len(instances)].Checker()
		clients.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				line, header := request(i)
				answer, err := ask.Try(line, header)
				if err != nil {
					answer = err.Error()
				}
				mu.Lock()
				answers[answer]++
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return answers
}
