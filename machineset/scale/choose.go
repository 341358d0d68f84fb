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

// First returns the n of all that go first, in order. It changes the order of all, whose first n they are. A value of T has, or is, a
// Machine. It takes linear time for a small part of many: partition, then sort that part.
func First[T any](o Order, all []*T, n int, of func(*T) *Machine) []*T {
	n = min(n, len(all))
	if n <= 0 {
		return nil
	}
	compare := func(a, b *T) int { return o.compare(of(a), of(b)) }
	partition(all, n, compare)
	slices.SortFunc(all[:n], compare)
	return all[:n:n]
}

// partition moves the n that go first to the front, in any order (Hoare's selection). The pivot is the median of three, so input
// that is sorted already is no trouble, and equal input takes equal steps.
func partition[T any](refs []*T, n int, compare func(a, b *T) int) {
	low, high := 0, len(refs)-1
	for low < high && n <= high {
		three := []*T{refs[low], refs[low+(high-low)/2], refs[high]}
		slices.SortFunc(three, compare)
		pivot, i, j := three[1], low, high
		for i <= j {
			for compare(refs[i], pivot) < 0 {
				i++
			}
			for compare(pivot, refs[j]) < 0 {
				j--
			}
			if i <= j {
				refs[i], refs[j] = refs[j], refs[i]
				i++
				j--
			}
		}
		switch { // what is left of i goes before what is right of j
		case n <= j:
			high = j
		case n > i:
			low = i
		default:
			return
		}
	}
}
