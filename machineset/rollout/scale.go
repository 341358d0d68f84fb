package rollout

import (
	"cmp"
	"slices"
)

// share divides a change of n, which may be negative, among sets with these replicas, in proportion and rounded. The first set that can
// take the rest gets it. Rule: Kubernetes' proportional scaling, with the caller's order of sets.
func share(n int, replicas []int) []int {
	sum, left := 0, n
	for _, r := range replicas {
		sum += r
	}
	parts := make([]int, len(replicas))
	for i, r := range replicas {
		if sum > 0 {
			part := (2*r*max(sum+n, 0)+sum)/(2*sum) - r
			parts[i] = min(max(part, min(left, 0)), max(left, 0)) // rounding must not exceed the rest
			left -= parts[i]
		}
	}
	for i, r := range replicas {
		more := max(left, -(r + parts[i])) // a set may have nothing left to remove
		parts[i] += more
		left -= more
	}
	return parts
}

// scale follows the desired number without a rollout. A single set in use takes the whole change. Several sets share it in proportion when
// the deployment has fewer Machines than desired, more than desired and surge, or more than desired while others have marked some.
func (p *plan) scale() {
	var used []*set
	total, marked := 0, 0
	for _, s := range p.sets {
		if !s.Deleting && s.Replicas > 0 {
			used = append(used, s)
			total += s.Replicas
			marked += s.marked
		}
	}
	if len(used) == 0 && p.current != nil {
		used = []*set{p.current}
	}
	surge := p.surge
	if len(used) == 1 {
		surge = 0
	}
	switch {
	case len(used) == 0:
	case total < p.desired:
		p.spread(used, min(p.desired-total, p.desired+p.surge-p.total))
	case total > p.desired:
		p.excess = total - p.desired
		p.collect(used, max(total-p.desired-surge, min(marked, total-p.desired)))
	}
}

// spread raises the replicas of sets by n in all.
func (p *plan) spread(used []*set, n int) {
	slices.SortStableFunc(used, func(a, b *set) int { return cmp.Or(cmp.Compare(b.Replicas, a.Replicas), older(b.Set, a.Set)) })
	used = slices.DeleteFunc(used, func(s *set) bool {
		if s.Frozen {
			p.block("the set " + s.Name + " is frozen and creates no Machines")
		}
		return s.Frozen
	})
	divide(max(n, 0), used)
}

// divide changes the sizes of sets by n in all, see share.
func divide(n int, used []*set) {
	sizes := make([]int, len(used))
	for i, s := range used {
		sizes[i] = s.to
	}
	for i, part := range share(n, sizes) {
		used[i].to += part
	}
}

// collect lowers the replicas of sets by n in all, first of sets with Machines that others have marked.
func (p *plan) collect(used []*set, n int) {
	slices.SortStableFunc(used, func(a, b *set) int { return cmp.Or(cmp.Compare(b.Replicas, a.Replicas), older(a.Set, b.Set)) })
	for _, s := range used {
		taken := min(s.marked, n)
		s.to -= taken
		n -= taken
	}
	divide(-n, used)
	for _, s := range used {
		for r := rankMarkedUnavailable; r <= rankPaused; r++ {
			s.victims = append(s.victims, p.first(p.ranked(s, r), len(s.alive)-s.to-len(s.victims))...)
		}
	}
}
