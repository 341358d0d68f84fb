package rollout_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// inPlaceWorld are the sets of a deployment, a set for each of three templates, with what their Machines were really updated to.
type inPlaceWorld struct {
	t        *testing.T
	rng      *rand.Rand
	desired  int
	strategy rollout.Strategy
	sets     []rollout.Set
	disabled []bool // the set creates no Machines
	template int
	content  map[types.UID]string
	said     []string
}

func newInPlaceWorld(t *testing.T, seed uint64, strategy rollout.Strategy) *inPlaceWorld {
	w := &inPlaceWorld{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), desired: 4, strategy: strategy, content: map[types.UID]string{}, disabled: make([]bool, 3),
	}
	for i := range 3 {
		name := fmt.Sprintf("set%d", i)
		w.sets = append(w.sets, rollout.Set{Name: name, UID: types.UID(name), Created: time.Unix(int64(i), 0)})
	}
	w.sets[0].Replicas = w.desired
	for range w.desired {
		w.create(0)
	}
	return w
}

func (w *inPlaceWorld) create(set int) {
	uid := types.UID(fmt.Sprintf("m%d", len(w.content)))
	w.content[uid] = w.sets[set].Name
	w.sets[set].Machines = append(w.sets[set].Machines, rollout.Machine{
		Machine: scale.Machine{Name: string(uid), UID: uid, Available: true, Ready: true},
	})
}

func (w *inPlaceWorld) facts() rollout.Facts {
	for i := range w.sets {
		s := &w.sets[i]
		s.Matches = i == w.template
		s.Frozen = w.disabled[i] && s.Replicas > len(s.Machines)
	}
	return rollout.Facts{Desired: contract.Some(w.desired), Strategy: w.strategy, Sets: w.sets}
}

// plan carries a decision out, or only a part of it: the process is stopped.
func (w *inPlaceWorld) plan() rollout.Decision {
	f := w.facts()
	d := rollout.Plan(f)
	require.Empty(w.t, broken(f, d), "%v", w.said)
	w.keepsAvailable(d)
	for i := range w.sets {
		w.disabled[i] = i != w.template || f.Sets[i].Frozen
	}
	writes := w.rng.IntN(2 * (len(d.Replicas) + len(d.InPlace) + 1))
	for _, c := range d.Replicas {
		if writes--; writes < 0 {
			return rollout.Decision{}
		}
		s := w.set(c.UID)
		s.Replicas = c.To
		for i := range s.Machines {
			if s.Machines[i].InPlace == rollout.Moved {
				s.Machines[i].InPlace = rollout.Received
			}
			s.Machines[i].Marked = slices.ContainsFunc(c.Victims, func(v scale.Victim) bool { return v.UID == s.Machines[i].UID })
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(d.InPlace)) {
		if writes--; writes < 0 {
			return rollout.Decision{}
		}
		s, i := ownerOf(w.sets, uid)
		s.Machines[i].InPlace, s.Machines[i].InPlaceSet = d.InPlace[uid], d.Current.Name
		if d.InPlace[uid] == rollout.Moved {
			to := w.set(d.Current.UID)
			to.Machines = append(to.Machines, s.Machines[i])
			s.Machines = slices.Delete(s.Machines, i, i+1)
		}
	}
	return d
}

// keepsAvailable checks that a decision selects no more available Machines than may be unavailable.
func (w *inPlaceWorld) keepsAvailable(d rollout.Decision) {
	available, selected := 0, 0
	for i := range w.sets {
		for _, m := range w.sets[i].Machines {
			usable := m.InPlace != rollout.Selected && m.InPlace != rollout.Failed
			chosen := d.InPlace[m.UID] == rollout.Selected
			if usable {
				available++
			}
			if usable && chosen {
				selected++
			}
		}
	}
	require.True(w.t, selected == 0 || available-selected >= w.desired-w.strategy.MaxUnavailable, "%d of %d: %v", selected, available, w.said)
}

func (w *inPlaceWorld) set(uid types.UID) *rollout.Set {
	return &w.sets[slices.IndexFunc(w.sets, func(s rollout.Set) bool { return s.UID == uid })]
}

// reconcile is a pass of the reconciler of a set.
func (w *inPlaceWorld) reconcile(i int) {
	s := &w.sets[i]
	counted := 0
	for _, m := range s.Machines {
		if m.InPlace != rollout.Moved {
			counted++
		}
	}
	for ; counted < s.Replicas && !w.disabled[i]; counted++ {
		w.create(i)
		w.said = append(w.said, "created in "+s.Name)
	}
	for ; counted > s.Replicas; counted-- {
		at := slices.IndexFunc(s.Machines, func(m rollout.Machine) bool { return m.Marked && m.InPlace != rollout.Moved })
		if at < 0 {
			at = slices.IndexFunc(s.Machines, func(m rollout.Machine) bool { return m.InPlace != rollout.Moved })
		}
		w.said = append(w.said, "deleted "+s.Machines[at].Name)
		s.Machines = slices.Delete(s.Machines, at, at+1)
	}
}

// update is the update hook, and a person who selects what has failed.
func (w *inPlaceWorld) update(fails bool) {
	for i := range w.sets {
		for j := range w.sets[i].Machines {
			m := &w.sets[i].Machines[j]
			switch {
			case m.InPlace == rollout.Selected && fails && w.rng.IntN(3) == 0:
				m.InPlace = rollout.Failed
				w.content[m.UID] = "half " + m.InPlaceSet
			case m.InPlace == rollout.Selected:
				m.InPlace = rollout.Updated
				w.content[m.UID] = m.InPlaceSet
			case m.InPlace == rollout.Failed && !fails:
				m.InPlace, m.InPlaceSet = rollout.Selected, w.sets[w.template].Name
			}
		}
	}
}

func (w *inPlaceWorld) machines() int {
	n := 0
	for i := range w.sets {
		n += len(w.sets[i].Machines)
	}
	return n
}

func TestUpdatesInPlaceEndWithEveryMachineUpToDateWhateverHappensOnTheWay(t *testing.T) {
	for seed := range uint64(3000) {
		surge, scales := int(seed%2), seed%5 == 0
		w := newInPlaceWorld(t, seed, rollout.Strategy{Type: rollout.InPlaceAuto, MaxUnavailable: 1 + int(seed%3), MaxSurge: surge})
		for range 60 {
			switch w.rng.IntN(8) {
			case 0:
				w.template = w.rng.IntN(3)
				if scales {
					w.desired = 2 + w.rng.IntN(5)
				}
			case 1, 2:
				w.update(true)
			case 3, 4:
				w.reconcile(w.rng.IntN(3))
			default:
				w.plan()
			}
			require.True(t, scales || w.machines() <= w.desired+surge, "seed %d: %v", seed, w.said)
		}
		for i := 0; ; i++ {
			require.Less(t, i, 500, "seed %d does not end: %+v", seed, w.sets)
			if d := w.plan(); d.Complete {
				break
			}
			w.update(false)
			for j := range 3 {
				w.reconcile(j)
			}
		}
		if surge == 0 && !scales {
			require.Empty(t, w.said, "seed %d: nothing is created or deleted", seed)
		}
		for _, m := range w.sets[w.template].Machines {
			require.Equal(t, w.sets[w.template].Name, w.content[m.UID], "seed %d: %s", seed, m.Name)
			require.Equal(t, rollout.NotInPlace, m.InPlace)
		}
		require.Len(t, w.sets[w.template].Machines, w.desired)
		require.Equal(t, w.desired, w.machines())
	}
}
