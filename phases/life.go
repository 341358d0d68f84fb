package phases

import (
	"cmp"
	"slices"
)

// Event is one thing that can happen to a Machine.
type Event[F comparable] struct {
	// Name stands at the arrows of a diagram.
	Name string
	// Apply changes the facts.
	Apply func(*F)
	// After says when it can happen; nil means at any time.
	After func(F) bool
}

// Life is what can happen to a Machine, for diagrams.
type Life[F comparable] struct {
	// Start are the facts of a new Machine.
	Start F
	// Events can happen in any order, as far as their After allows it.
	Events []Event[F]
	// Over says that nothing is left of the Machine but its object; nil means never. End stands at the arrows to the end.
	Over func(F) bool
	End  string
}

// arrow is a change of phase; an empty To is the end.
type arrow struct{ From, To, Name string }

// arrows walks every order in which the events of a life can happen, and returns each change of phase once, sorted.
func (t *Table[F]) arrows(life Life[F]) []arrow {
	found, seen := map[arrow]bool{}, map[F]bool{}
	next := []F{life.Start}
	for len(next) > 0 {
		f := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[f] {
			continue
		}
		seen[f] = true
		from := string(t.Compute(f).Phase)
		if life.Over != nil && life.Over(f) {
			found[arrow{From: from, Name: life.End}] = true
			continue
		}
		for _, e := range life.Events {
			after := f
			e.Apply(&after)
			if after == f || (e.After != nil && !e.After(f)) {
				continue
			}
			if to := string(t.Compute(after).Phase); to != from {
				found[arrow{from, to, e.Name}] = true
			}
			next = append(next, after)
		}
	}
	all := make([]arrow, 0, len(found))
	for a := range found {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b arrow) int {
		last := func(x arrow) int { return map[bool]int{true: 1}[x.To == ""] }
		return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Name, b.Name))
	})
	return all
}
