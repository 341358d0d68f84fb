package pass

import (
	"sync"
	"sync/atomic"
)

// InParallel calls a function for each item, for at most so many at the same time, and returns the results in the order of the items. limit
// below 1 is 1. do must be safe for concurrent use, unless limit is 1: then the calls come one after the other, in order.
func InParallel[T, R any](limit int, all []T, do func(T) R) []R {
	results := make([]R, len(all))
	var next atomic.Int64 // how many were taken
	var running sync.WaitGroup
	for range min(max(limit, 1), len(all)) {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				results[i] = do(all[i])
			}
		})
	}
	running.Wait()
	return results
}
