package rollout_test

import (
	"testing"

	"github.com/machinist-dev/machinist/machineset/rollout"
)

const most = 6

// eachCount calls do with every way to spread up to n Machines over kinds.
func eachCount(n int, of []kind, do func(worldSet, int)) {
	var s worldSet
	var next func(i, left int)
	next = func(i, left int) {
		if i == len(of) {
			do(s, n-left)
			return
		}
		for c := range left + 1 {
			s.count[of[i]] = c
			next(i+1, left-c)
		}
		s.count[of[i]] = 0
	}
	next(0, n)
}

// vary gives a set replicas: as many as Machines, as many as stay, or one more than there are. It reports false for a repetition.
func (s *worldSet) vary(variant int) bool {
	s.replicas = s.size()
	switch variant {
	case 1:
		s.replicas -= s.count[deleting]
		return s.count[deleting] > 0
	case 2:
		s.replicas++
	}
	return true
}

// eachWorld calls do with every multiset of up to six Machines of two revisions, with replicas as they are during and after creations and
// deletions, and with every desired number: a change of revision and a scaling may happen at any of them.
func eachWorld(of []kind, do func(world)) {
	eachCount(most, of, func(old worldSet, used int) {
		eachCount(most-used, of, func(current worldSet, _ int) {
			old.exists, current.exists = true, true
			for variant := range 9 {
				w := world{sets: [2]worldSet{old, current}}
				if !w.sets[0].vary(variant%3) || !w.sets[1].vary(variant/3) {
					continue
				}
				for w.desired = range most + 1 {
					do(w)
				}
			}
		})
	})
}

func strategies() []rollout.Strategy {
	var all []rollout.Strategy
	for surge := range 4 {
		for unavailable := range 4 {
			if surge+unavailable > 0 {
				all = append(all, rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: surge, MaxUnavailable: unavailable})
			}
		}
	}
	return append(all, rollout.Strategy{Type: rollout.OnDelete}, rollout.Strategy{Type: rollout.Recreate})
}

func TestEveryDecisionKeepsTheBounds(t *testing.T) {
	n := newNames()
	for _, strategy := range strategies() {
		eachWorld([]kind{pending, available, deleting, marked}, func(w world) {
			if w.sets[0].count[marked]+w.sets[1].count[marked] == 0 || strategy.MaxUnavailable > max(w.desired, 1) {
				return // the walks come to worlds without marks, and a higher number is like as many as desired
			}
			f := w.facts(n, strategy)
			if text := broken(f, rollout.Plan(f)); text != "" {
				t.Fatalf("%+v %+v: %s: %+v", strategy, w, text, rollout.Plan(f))
			}
		})
	}
}

// order is an order in which sets and Machines act.
type order struct{ all, goneFirst bool }

// walk follows a world until it is complete, or until it comes to one that was seen to end.
func walk(t *testing.T, n *names, strategy rollout.Strategy, o order, w world, ends map[world]bool) {
	t.Helper()
	path := map[world]bool{}
	for !ends[w] {
		if path[w] {
			t.Fatalf("%+v %+v: no progress at %+v: %+v", strategy, o, w, rollout.Plan(w.facts(n, strategy)))
		}
		path[w] = true
		f := w.facts(n, strategy)
		d := rollout.Plan(f)
		if text := broken(f, d); text != "" {
			t.Fatalf("%+v %+v: %s: %+v", strategy, w, text, d)
		}
		if d.Complete {
			break
		}
		w = next(w, w.carryOut(d), strategy, o)
	}
	for seen := range path {
		ends[seen] = true
	}
}

// next lets sets and Machines act after a plan; with OnDelete a user deletes a Machine when nothing else happens.
func next(before, w world, strategy rollout.Strategy, o order) world {
	if o.all || w == before {
		w = w.reconcileSet(0).reconcileSet(1)
	}
	if o.all || w == before {
		w = w.happen(o.all, o.goneFirst)
	}
	if old := &w.sets[0].count; w == before && strategy.Type == rollout.OnDelete {
		for _, k := range []kind{available, marked} {
			if old[k] > 0 {
				old[k]--
				old[deleting]++
				break
			}
		}
	}
	return w
}

func TestEveryRolloutEndsAndKeepsTheBounds(t *testing.T) {
	n := newNames()
	for _, strategy := range strategies() {
		for _, o := range []order{{true, true}, {false, true}, {false, false}} {
			ends := map[world]bool{}
			eachWorld([]kind{pending, available, deleting}, func(w world) {
				if strategy.MaxUnavailable <= max(w.desired, 1) { // more is like as many as desired
					walk(t, n, strategy, o, w, ends)
				}
			})
		}
	}
}
