package scale_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// ward is a set whose Machines fall ill and recover, with what the API server has and what caches have shown.
type ward struct {
	t        *testing.T
	rng      *rand.Rand
	now      time.Time
	machines []scale.Machine
	past     [][]scale.Machine
	next     int64
	record   scale.Replacements
	replaced int
}

func newWard(t *testing.T, seed uint64, replicas int) *ward {
	w := &ward{t: t, rng: rand.New(rand.NewPCG(seed, 11)), now: remediationNow(), next: 1}
	for range replicas {
		w.create()
	}
	return w
}

func (w *ward) create() {
	name := fmt.Sprintf("m%03d", w.next)
	w.machines = append(w.machines, scale.Machine{Name: name, UID: types.UID(name), Slot: w.next, Created: w.now})
	w.next++
}

// pass decides on what a cache shows, which may be old, and carries the decision out as the reconciler does: the record on the newest
// version of the set, and deletions only while as many Machines are alive as were seen. The process may be stopped in between.
func (w *ward) pass(limits scale.RemediationLimits, least contract.Opt[int], lag int) scale.Remediation {
	seen := w.past[max(len(w.past)-1-lag, 0)]
	record := w.record
	facts := scale.RemediationFacts{Machines: slices.Clone(seen), Next: w.next, Replacements: record, Limits: limits,
		MinAvailable: least, Now: w.now}
	d := scale.Remediate(facts)
	w.rng.Shuffle(len(facts.Machines), func(a, b int) { facts.Machines[a], facts.Machines[b] = facts.Machines[b], facts.Machines[a] })
	names := slices.Clone(record.Names)
	w.rng.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
	facts.Replacements.Names = names
	require.Equal(w.t, d, scale.Remediate(facts), "the order of the facts does not matter")
	w.record = d.Replacements
	if w.rng.IntN(8) == 0 {
		return d // stopped
	}
	alive := func(all []scale.Machine) (n int) {
		for _, m := range all {
			if !m.Deleting {
				n++
			}
		}
		return n
	}
	spare := alive(w.machines) - (alive(seen) - len(d.Delete))
	for _, v := range d.Delete {
		at := slices.IndexFunc(w.machines, func(m scale.Machine) bool { return m.UID == v.UID })
		if at < 0 || w.machines[at].Deleting || !w.machines[at].Ailing || spare <= 0 {
			continue
		}
		w.machines[at].Deleting = true
		w.machines[at].SayRemediating()
		spare--
		w.replaced++
	}
	return d
}

// happen lets something happen to one Machine, or to the time.
func (w *ward) happen() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(120)) * time.Second)
	if len(w.machines) == 0 {
		return
	}
	at := w.rng.IntN(len(w.machines))
	switch m := &w.machines[at]; w.rng.IntN(5) {
	case 0, 1:
		m.Ailing, m.Available = !m.Deleting, m.Available && w.rng.IntN(2) == 0
	case 2:
		if m.Ailing = false; !m.Deleting {
			m.AvailableAt(w.now)
		}
	case 3:
		if m.Deleting {
			w.machines = slices.Delete(w.machines, at, at+1)
			w.create()
		}
	}
}

func (w *ward) available() (n int) {
	for _, m := range w.machines {
		if m.Available && !m.Deleting {
			n++
		}
	}
	return n
}

func (w *ward) inFlight() (n int) {
	for _, m := range w.machines {
		if m.Deleting {
			n++
		}
	}
	return n
}

func TestNoHistoryMakesMoreMachinesGoThanTheLimitsAllow(t *testing.T) {
	t.Parallel()
	replaced := 0
	for seed := range uint64(3000) {
		replicas, most := 1+int(seed%6), int(seed%4)
		w := newWard(t, seed, replicas)
		limits := scale.RemediationLimits{MaxInFlight: new(most), Outdated: seed%50 == 49}
		for range 80 {
			w.happen()
			w.past = append(w.past, slices.Clone(w.machines))
			least := w.rng.IntN(replicas + 1)
			available, going := w.available(), w.inFlight()
			lag := w.rng.IntN(4)
			d := w.pass(limits, contract.Some(least), lag)
			require.LessOrEqual(t, w.inFlight(), max(going, most), "seed %d", seed)
			if lag == 0 && w.available() < available {
				require.GreaterOrEqual(t, w.available(), least, "seed %d: of %d available", seed, available)
			}
			require.True(t, !limits.Outdated || len(d.Delete) == 0)
		}
		replaced += w.replaced
	}
	require.Greater(t, replaced, 3000)
}

// A template is broken: no Machine made from it ever becomes healthy, or gets a Node.
func TestABrokenTemplateIsReplacedMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 3, 10} {
		w := newWard(t, 1, replicas)
		perDay := func() int {
			before := w.replaced
			for end := w.now.Add(24 * time.Hour); w.now.Before(end); w.now = w.now.Add(time.Minute) {
				for i := range w.machines {
					w.machines[i].Ailing = true
				}
				w.past = [][]scale.Machine{slices.Clone(w.machines)}
				w.pass(scale.RemediationLimits{}, contract.Opt[int]{}, 0)
				gone := slices.DeleteFunc(slices.Clone(w.machines), func(m scale.Machine) bool { return !m.Deleting })
				w.machines = slices.DeleteFunc(w.machines, func(m scale.Machine) bool { return m.Deleting })
				for range gone {
					w.create()
				}
			}
			return w.replaced - before
		}
		require.LessOrEqual(t, perDay(), 11*replicas, "on the first day")
		require.LessOrEqual(t, perDay(), 11*replicas, "on the second day")
	}
}

// The record of a set with one Machine is known: its Machine is replaced when its back-off is over, and no earlier.
func TestANewMachineIsReplacedWhenTheBackOffIsOver(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		w := newWard(t, seed, 1)
		count, last, first := 0, time.Time{}, int64(0)
		for range 300 {
			w.happen()
			m := w.machines[0]
			isNew := m.Slot >= first && !m.Created.Before(last)
			stays := m.Available && !m.Deleting && !m.Ailing && isNew && w.now.Sub(m.AvailableSince()) >= time.Hour
			if stays || w.now.Sub(last) >= 24*time.Hour {
				count = 0
			}
			w.past = [][]scale.Machine{slices.Clone(w.machines)}
			before := w.record
			w.pass(scale.RemediationLimits{}, contract.Opt[int]{}, 0)
			record := w.record
			if !slices.Contains(record.Names, m.Name) || slices.Contains(before.Names, m.Name) {
				continue
			}
			now := w.now.Truncate(time.Second)
			switch {
			case count == 0:
				count, last, first = 1, now, w.next
			case m.Slot >= first:
				require.GreaterOrEqual(t, now.Sub(last), min(time.Minute<<(count-1), 24*time.Hour), "seed %d", seed)
				count, last = count+1, now
			}
			require.Equal(t, count, record.Count, "seed %d", seed)
		}
	}
}
