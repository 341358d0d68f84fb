package scale

import "slices"

// first returns the n that go first, in order. It takes linear time for a small part of many: partition, then sort that part.
func (o Order) first(all []Machine, n int) []*Machine {
	refs := make([]*Machine, len(all))
	for i := range all {
		refs[i] = &all[i]
	}
	n = min(n, len(refs))
	if n <= 0 {
		return nil
	}
	o.partition(refs, n)
	refs = refs[:n:n]
	slices.SortFunc(refs, o.compare)
	return refs
}

// partition moves the n that go first to the front, in any order (Hoare's selection). The pivot is the median of three, so input
// that is sorted already is no trouble, and equal input takes equal steps.
func (o Order) partition(refs []*Machine, n int) {
	low, high := 0, len(refs)-1
	for low < high && n <= high {
		pivot := o.median(refs[low], refs[low+(high-low)/2], refs[high])
		i, j := low, high
		for i <= j {
			for o.compare(refs[i], pivot) < 0 {
				i++
			}
			for o.compare(pivot, refs[j]) < 0 {
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

func (o Order) median(a, b, c *Machine) *Machine {
	three := []*Machine{a, b, c}
	slices.SortFunc(three, o.compare)
	return three[1]
}
