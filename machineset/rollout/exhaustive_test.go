package rollout_test

import (
	"fmt"
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
// deletions: a change of revision, and a scaling to each desired number, may happen at any of them.
func eachWorld(of []kind, do func(world)) {
	eachCount(most, of, func(old worldSet, used int) {
		eachCount(most-used, of, func(current worldSet, _ int) {
			old.exists, current.exists = true, true
			for variant := range 9 {
				w := world{sets: [2]worldSet{old, current}}
				if w.sets[0].vary(variant%3) && w.sets[1].vary(variant/3) {
					do(w)
				}
			}
		})
	})
}

// strategies are every pair of surge and unavailability for up to six Machines, and the other ways.
func strategies() []rollout.Strategy {
	all := []rollout.Strategy{{Type: rollout.OnDelete}, {Type: rollout.Recreate}}
	for surge := range most + 1 {
		for unavailable := range most + 1 {
			if surge+unavailable > 0 {
				all = append(all, rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: surge, MaxUnavailable: unavailable})
			}
		}
	}
	return all
}

// differs reports whether a strategy differs for a desired number from those with less unavailability: more is like as many as desired.
func differs(strategy rollout.Strategy, desired int) bool {
	return strategy.MaxUnavailable <= max(desired, 1)
}

func TestEveryDecisionKeepsTheBounds(t *testing.T) {
	t.Parallel()
	all := strategies()
	for desired := range most + 1 {
		t.Run(fmt.Sprint(desired, " desired"), func(t *testing.T) {
			t.Parallel()
			n := newNames()
			eachWorld([]kind{pending, available, deleting, marked}, func(w world) {
				if w.sets[0].count[marked]+w.sets[1].count[marked] == 0 {
					return // the walks come to worlds without marks
				}
				w.desired = desired
				f := w.facts(n, rollout.Strategy{})
				for _, f.Strategy = range all {
					if !differs(f.Strategy, desired) {
						continue
					}
					if d := rollout.Plan(f); broken(f, d) != "" {
						t.Fatalf("%+v %+v: %s: %+v", f.Strategy, w, broken(f, d), d)
					}
				}
			})
		})
	}
}

// order is an order in which sets and Machines act.
type order struct{ all, goneFirst bool }

func orders() []order { return []order{{true, true}, {false, true}, {false, false}} }

// walker follows worlds under one strategy. Each of them is planned once, in whatever order sets and Machines act before and after.
type walker struct {
	t        *testing.T
	names    *names
	strategy rollout.Strategy
	index    map[key]int
	visits   []visit
	path     []int
}

// visit is a world that a walker has come to: what a plan makes of it, and for each order whether it was seen to end.
type visit struct {
	planned  world
	complete bool
	ends, on [3]bool
}

// visit plans a world that was not planned before, and checks the bounds.
func (r *walker) visit(w world) int {
	k := w.key()
	at, found := r.index[k]
	if found {
		return at
	}
	f := w.facts(r.names, r.strategy)
	d := rollout.Plan(f)
	if text := broken(f, d); text != "" {
		r.t.Fatalf("%+v %+v: %s: %+v", r.strategy, w, text, d)
	}
	at = len(r.visits)
	r.index[k], r.visits = at, append(r.visits, visit{planned: w.carryOut(d), complete: d.Complete})
	return at
}

// walk follows a world until it is complete, or until it comes to one that was seen to end.
func (r *walker) walk(w world, i int, o order) {
	for r.path = r.path[:0]; ; {
		at := r.visit(w)
		v := &r.visits[at]
		if v.ends[i] {
			break
		}
		if v.on[i] {
			r.t.Fatalf("%+v %+v: no progress at %+v: %+v", r.strategy, o, w, rollout.Plan(w.facts(r.names, r.strategy)))
		}
		v.on[i], r.path = true, append(r.path, at)
		if v.complete {
			break
		}
		w = next(w, v.planned, r.strategy, o)
	}
	for _, at := range r.path {
		r.visits[at].ends[i] = true
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
	t.Parallel()
	for _, strategy := range strategies() {
		t.Run(fmt.Sprintf("%s %d %d", strategy.Type, strategy.MaxSurge, strategy.MaxUnavailable), func(t *testing.T) {
			t.Parallel()
			r := &walker{t: t, names: newNames(), strategy: strategy, index: map[key]int{}}
			for i, o := range orders() {
				eachWorld([]kind{pending, available, deleting}, func(w world) {
					for w.desired = range most + 1 {
						if differs(strategy, w.desired) {
							r.walk(w, i, o)
						}
					}
				})
			}
		})
	}
}
