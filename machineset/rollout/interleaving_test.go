package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// stage is what a Machine of the interleaving is like.
type stage uint8

const (
	stageAvailable stage = iota
	stageWaiting         // it may become available
	stageChosen
	stageChosenWaiting
	stageChosenLate // it has become available after it was chosen
	stageDeleting
	stages
)

// members is a MachineSet of the interleaving: how many Machines of each stage it has, and how many it wants.
type members struct {
	want int8
	has  [stages]int8
}

func (g *members) alive() int8 {
	return g.has[stageAvailable] + g.has[stageWaiting] + g.has[stageChosen] + g.has[stageChosenWaiting] + g.has[stageChosenLate]
}

// situation is a deployment of the interleaving with two sets; those that do not exist want nothing and have nothing.
type situation struct {
	groups  [2]members
	exists  [2]bool
	current int8
	desired int8
}

func (s situation) available() (n int) {
	for _, g := range s.groups {
		n += int(g.has[stageAvailable] + g.has[stageChosen])
	}
	return n
}

func (s situation) total() (n int) {
	for _, g := range s.groups {
		n += int(max(g.want, g.alive()+g.has[stageDeleting]))
	}
	return n
}

func stageName(set int, k stage, n int8) string { return fmt.Sprintf("%d-%d-%d", set, k, n) }

func (s situation) facts(strategy rollout.Strategy) rollout.Facts {
	f := rollout.Facts{Desired: contract.Some(int(s.desired)), Strategy: strategy, Now: time.Unix(1000, 0)}
	for i, g := range s.groups {
		if !s.exists[i] {
			continue
		}
		set := rollout.Set{
			Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Created: time.Unix(int64(i), 0), Matches: i == int(s.current),
			Replicas: int(g.want),
		}
		for k := range stages {
			for n := range g.has[k] {
				ready := k == stageAvailable || k == stageChosen || k == stageChosenLate
				marked := k == stageChosen || k == stageChosenWaiting || k == stageChosenLate
				set.Machines = append(set.Machines, rollout.Machine{Mine: marked, Machine: scale.Machine{
					Name: stageName(i, k, n), UID: types.UID(stageName(i, k, n)), Ready: ready, Available: ready,
					Marked: marked, Deleting: k == stageDeleting, Priority: scale.DefaultPriority,
				}})
			}
		}
		f.Sets = append(f.Sets, set)
	}
	return f
}

func parse(stageName string) (set int, k stage) {
	var n, number int
	_, _ = fmt.Sscanf(stageName, "%d-%d-%d", &set, &number, &n)
	return set, stage(number)
}

// needsMarks reports whether the Machines of a set differ, so that it matters which of them go.
func (s situation) needsMarks(i int) bool {
	return s.groups[i].alive() != s.groups[i].has[stageAvailable]
}

// carryOut does what a decision asks for: marks, replicas, and a new set.
func (s situation) carryOut(d rollout.Decision) situation {
	was := s
	for uid := range d.Unmark {
		set, k := parse(string(uid))
		s.groups[set].has[k]--
		s.groups[set].has[map[stage]stage{stageChosen: stageAvailable, stageChosenWaiting: stageWaiting, stageChosenLate: stageAvailable}[k]]++
	}
	for _, change := range d.Replicas {
		i := slices.Index([]string{"0", "1"}, change.Set)
		g := &s.groups[i]
		for _, v := range change.Victims {
			if set, k := parse(v.Name); (k == stageAvailable || k == stageWaiting) && change.To < change.From && was.needsMarks(i) {
				s.groups[set].has[k]--
				s.groups[set].has[k+stageChosen]++
			}
		}
		g.want = int8(change.To)
	}
	if replicas, creates := d.Create.Get(); creates {
		s.exists[s.current], s.groups[s.current].want = true, int8(replicas)
	}
	return s
}

// deletions are the states after a set has deleted one Machine too many: a marked one, or whichever it sees fit.
func (s situation) deletions(i int) []situation {
	g := s.groups[i]
	if g.alive() <= g.want {
		return nil
	}
	victims := []stage{stageAvailable, stageWaiting}
	if g.has[stageChosen]+g.has[stageChosenWaiting]+g.has[stageChosenLate] > 0 {
		victims = []stage{stageChosen, stageChosenWaiting, stageChosenLate}
	}
	var all []situation
	for _, k := range victims {
		if g.has[k] > 0 {
			next := s
			next.groups[i].has[k]--
			next.groups[i].has[stageDeleting]++
			all = append(all, next)
		}
	}
	return all
}

// moves are the states after something else has happened to a set: it creates a Machine, one becomes available, or one is gone.
func (s situation) moves(i int) []situation {
	g := s.groups[i]
	var all []situation
	move := func(possible bool, from, to stage) {
		if possible {
			next := s
			if from < stages {
				next.groups[i].has[from]--
			}
			if to < stages {
				next.groups[i].has[to]++
			}
			all = append(all, next)
		}
	}
	move(g.alive()+g.has[stageDeleting] < g.want, stages, stageWaiting)
	move(g.has[stageWaiting] > 0, stageWaiting, stageAvailable)
	move(g.has[stageChosenWaiting] > 0, stageChosenWaiting, stageChosenLate)
	move(g.has[stageDeleting] > 0, stageDeleting, stages)
	return all
}

// interleaving visits every situation that can be reached, with changes of the template and of the desired number when they are allowed,
// and checks the bounds after each step.
type interleaving struct {
	t        *testing.T
	strategy func(desired int) rollout.Strategy
	desires  []int8 // that a user may choose at any moment
	flips    bool   // a user may go to the other template at any moment
	seen     map[situation]bool
	todo     []situation
}

func (w *interleaving) reach(all ...situation) {
	for _, s := range all {
		if !w.seen[s] {
			w.seen[s] = true
			w.todo = append(w.todo, s)
		}
	}
}

func (w *interleaving) run(from ...situation) {
	w.t.Helper()
	w.reach(from...)
	for len(w.todo) > 0 {
		s := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.step(s)
	}
}

func (w *interleaving) step(s situation) {
	strategy := w.strategy(int(s.desired))
	decision := rollout.Plan(s.facts(strategy))
	next := s.carryOut(decision)
	limit := int(s.desired) + strategy.MaxSurge
	if strategy.Type == rollout.RollingUpdate && next.total() > max(limit, s.total()) {
		w.t.Fatalf("%+v: %+v makes %d, and at most %d may be", s, decision, next.total(), limit)
	}
	w.reach(next)
	for i := range s.groups {
		w.reach(s.moves(i)...)
		for _, after := range s.deletions(i) {
			w.checkDeletion(s, after, strategy)
			w.reach(after)
		}
	}
	if w.flips {
		other := s
		other.current = 1 - s.current
		w.reach(other)
	}
	for _, n := range w.desires {
		other := s
		other.desired = n
		w.reach(other)
	}
}

// checkDeletion checks the deletion of one Machine by a set: enough stay available, unless the desired number has changed on the way, or
// the current set alone has more than are desired.
func (w *interleaving) checkDeletion(before, after situation, strategy rollout.Strategy) {
	if strategy.Type != rollout.RollingUpdate || len(w.desires) > 0 || after.available() == before.available() {
		return
	}
	if least := int(before.desired) - strategy.MaxUnavailable; after.available() < least {
		w.t.Fatalf("%+v: a set deletes a Machine, and %d of %d stay available", before, after.available(), least)
	}
}

// next is the situation after the next thing that happens when nothing gets stuck: what the plan asks for, and else a deletion, and else
// anything else. done: nothing is left to do.
func (w *interleaving) next(s situation) (next situation, done bool) {
	decision := rollout.Plan(s.facts(w.strategy(int(s.desired))))
	if next = s.carryOut(decision); next != s {
		return next, false
	}
	for i := range s.groups {
		if all := append(s.deletions(i), s.moves(i)...); len(all) > 0 {
			return all[0], false
		}
	}
	return s, decision.Complete
}

// ends checks that a rollout ends from every situation that was seen.
func (w *interleaving) ends() {
	w.t.Helper()
	ending := map[situation]bool{}
	for s := range w.seen {
		var path []situation
		on := map[situation]bool{}
		for !ending[s] {
			if on[s] {
				w.t.Fatalf("the rollout never ends from %+v: %+v", s, rollout.Plan(s.facts(w.strategy(int(s.desired)))))
			}
			on[s], path = true, append(path, s)
			next, done := w.next(s)
			if done {
				break
			}
			s = next
		}
		for _, one := range path {
			ending[one] = true
		}
	}
}

func within(surge, unavailable int) func(int) rollout.Strategy {
	return func(int) rollout.Strategy {
		return rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: surge, MaxUnavailable: unavailable}
	}
}

// beginnings are all states of an old set with so many Machines.
func beginnings(n int8) []situation {
	var all []situation
	for a := range n + 1 {
		for d := range n - a + 1 {
			s := situation{desired: n, current: 1, exists: [2]bool{true, false}}
			s.groups[0] = members{want: n, has: [stages]int8{stageAvailable: a, stageDeleting: d, stageWaiting: n - a - d}}
			all = append(all, s)
		}
	}
	return all
}

func TestEveryRolloutKeepsItsBoundsWhateverHappensInBetween(t *testing.T) {
	t.Parallel()
	for n := range int8(most + 1) {
		for surge := range int(n) + 1 {
			for unavailable := range int(n) + 1 {
				if surge+unavailable == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%d Machines %d %d", n, surge, unavailable), func(t *testing.T) {
					t.Parallel()
					w := &interleaving{t: t, strategy: within(surge, unavailable), seen: map[situation]bool{}}
					w.run(beginnings(n)...)
					w.ends()
					require.NotEmpty(t, w.seen)
				})
			}
		}
	}
}

func TestATemplateThatChangesAtAnyMomentKeepsTheBounds(t *testing.T) {
	t.Parallel()
	for n := range int8(5) {
		for _, s := range [][2]int{{1, 0}, {0, 1}, {2, 1}, {1, 2}, {int(n), int(n)}} {
			w := &interleaving{t: t, strategy: within(s[0], s[1]), flips: true, seen: map[situation]bool{}}
			w.run(beginnings(n)...)
			w.ends()
		}
	}
}

func TestADesiredNumberThatChangesAtAnyMomentIsReachedWithinTheSurge(t *testing.T) {
	t.Parallel()
	for _, s := range [][2]int{{1, 0}, {0, 1}, {2, 1}} {
		w := &interleaving{t: t, strategy: within(s[0], s[1]), desires: []int8{0, 2, 3}, seen: map[situation]bool{}}
		w.run(beginnings(2)...)
		w.ends()
	}
}

func TestRecreateAndOnDeleteEnd(t *testing.T) {
	t.Parallel()
	for _, stage := range []rollout.Type{rollout.Recreate, rollout.OnDelete} {
		for n := range int8(5) {
			w := &interleaving{t: t, strategy: func(int) rollout.Strategy { return rollout.Strategy{Type: stage} }, seen: map[situation]bool{}}
			w.run(beginnings(n)...)
			if stage == rollout.Recreate {
				w.ends()
			}
		}
	}
}
