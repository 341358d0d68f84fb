package engine

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// InParallel calls a function for each item, for at most so many at the same time, and returns the results in the order of the items. limit
// below 1 is 1. do must be safe for concurrent use, unless limit is 1: then the calls come one after the other, in order. When do panics,
// InParallel panics too, with the value and the stack of that call as text, once the other calls have returned: what recovers the panics
// of the caller, such as controller-runtime, recovers this one, which would end the process otherwise.
func InParallel[T, R any](limit int, all []T, do func(T) R) []R {
	results := make([]R, len(all))
	if limit <= 1 || len(all) == 1 {
		for i := range all {
			results[i] = do(all[i])
		}
		return results
	}
	var next atomic.Int64 // how many were taken
	var running sync.WaitGroup
	var failed atomic.Pointer[string]
	for range min(limit, len(all)) {
		running.Go(func() {
			defer func() {
				if value := recover(); value != nil {
					failed.CompareAndSwap(nil, new(fmt.Sprintf("%v\n%s", value, debug.Stack())))
				}
			}()
			for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
				results[i] = do(all[i])
			}
		})
	}
	running.Wait()
	if said := failed.Load(); said != nil {
		panic(*said) //nolint:forbidigo // that of do, which would end the process in the goroutine where it began
	}
	return results
}
