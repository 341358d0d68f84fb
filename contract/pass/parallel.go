package pass

import "sync"

// InParallel calls a function for each item, for at most so many at the same time, and returns the results in the order of the items. limit
// below 1 is 1. do must be safe for concurrent use, unless limit is 1: then the calls come one after the other, in order.
func InParallel[T, R any](limit int, all []T, do func(T) R) []R {
	results := make([]R, len(all))
	var next int
	var mu sync.Mutex
	take := func() (i int, more bool) {
		mu.Lock()
		defer mu.Unlock()
		i = next
		next++
		return i, i < len(all)
	}
	var running sync.WaitGroup
	for range min(max(limit, 1), len(all)) {
		running.Go(func() {
			for i, more := take(); more; i, more = take() {
				results[i] = do(all[i])
			}
		})
	}
	running.Wait()
	return results
}
