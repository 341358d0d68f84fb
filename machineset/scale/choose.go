package scale

import "slices"

// First returns the n of all that go first, in order. It changes the order of all, whose first n they are. A value of T has, or is, a
// Machine.
func First[T any](o Order, all []*T, n int, of func(*T) *Machine) []*T {
	if n = min(n, len(all)); n <= 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *T) int { return o.compare(of(a), of(b)) })
	return all[:n:n]
}
