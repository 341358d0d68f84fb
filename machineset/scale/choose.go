package scale

import "slices"

// first returns the n that go first, in order.
func (o Order) first(all []Machine, n int) []*Machine {
	refs := make([]*Machine, len(all))
	for i := range all {
		refs[i] = &all[i]
	}
	return First(o, refs, n, func(m *Machine) *Machine { return m })
}

// fewFirst is how many go first at most for an insertion: more are sorted together with the rest.
const fewFirst = 256

// First returns the n of all that go first, in order. It changes the order of all, whose first n they are. A value of T has, or is, a
// Machine. For few of many, it takes hardly more than one comparison of each.
func First[T any](o Order, all []*T, n int, of func(*T) *Machine) []*T {
	n = min(n, len(all))
	if n <= 0 {
		return nil
	}
	compare := func(a, b *T) int { return o.compare(of(a), of(b)) }
	if n > fewFirst {
		slices.SortFunc(all, compare)
		return all[:n:n]
	}
	for i, one := range all { // those before it are in order, up to n
		if i >= n && compare(all[n-1], one) <= 0 {
			continue
		}
		last := min(i, n-1)
		at, _ := slices.BinarySearchFunc(all[:last], one, compare)
		all[i] = all[last]
		copy(all[at+1:last+1], all[at:last])
		all[at] = one
	}
	return all[:n:n]
}
