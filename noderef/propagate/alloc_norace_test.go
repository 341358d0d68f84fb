//go:build !race

package propagate

import "testing"

// allocations returns the average number of allocations of f.
func allocations(f func()) float64 { return testing.AllocsPerRun(100, f) }
