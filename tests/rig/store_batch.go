package rig

import (
	"sync"
)

// AtOnce runs n callers, each several times, and returns how often each outcome of kindOf came.
func AtOnce(n, times int, take func(caller int) string) map[string]int {
	var mu sync.Mutex
	outcomes := map[string]int{}
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			for range times {
				outcome := take(i)
				mu.Lock()
				outcomes[outcome]++
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	return outcomes
}
