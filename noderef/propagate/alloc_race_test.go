//go:build race

package propagate

import "testing"

// allocations runs f and counts nothing: under the race detector a sync.Pool, which package regexp keeps its machines in,
// forgets at random.
func allocations(f func()) float64 {
	testing.AllocsPerRun(1, f)
	return 0
}
