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
	record   string
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
func (w *ward) pass(policy scale.RemediationPolicy, limits scale.RemediationLimits, least contract.Opt[int], lag int) scale.Remediation {
	seen := w.past[max(len(w.past)-1-lag, 0)]
	lines, err := scale.ParseLines(w.record, "set")
	require.NoError(w.t, err)
	facts := scale.RemediationFacts{Machines: slices.Clone(seen), Next: w.next, Lines: lines, Limits: limits, MinAvailable: least, Now: w.now,
		RemediationPolicy: policy}
	d := scale.Remediate(facts)
	w.rng.Shuffle(len(facts.Machines), func(a, b int) { facts.Machines[a], facts.Machines[b] = facts.Machines[b], facts.Machines[a] })
	w.rng.Shuffle(len(facts.Lines), func(a, b int) { facts.Lines[a], facts.Lines[b] = facts.Lines[b], facts.Lines[a] })
	require.Equal(w.t, d, scale.Remediate(facts), "the order of the facts does not matter")
	w.record = scale.LinesText("set", d.Lines)
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
		w.machines[at].Deleting, w.machines[at].Remediating = true, true
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
		m.Ailing, m.Available, m.AvailableSince = false, !m.Deleting, w.now
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
		limits := scale.RemediationLimits{MaxInFlight: contract.Some(most), Outdated: seed%50 == 49}
		for range 80 {
			w.happen()
			w.past = append(w.past, slices.Clone(w.machines))
			least := w.rng.IntN(replicas + 1)
			available, going := w.available(), w.inFlight()
			lag := w.rng.IntN(4)
			d := w.pass(scale.RemediationPolicy{}, limits, contract.Some(least), lag)
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
func TestABrokenTemplateCostsNoMoreThanTheLimitForEachLine(t *testing.T) {
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
				w.pass(scale.RemediationPolicy{}, scale.RemediationLimits{}, contract.Opt[int]{}, 0)
				gone := slices.DeleteFunc(slices.Clone(w.machines), func(m scale.Machine) bool { return !m.Deleting })
				w.machines = slices.DeleteFunc(w.machines, func(m scale.Machine) bool { return m.Deleting })
				for range gone {
					w.create()
				}
			}
			return w.replaced - before
		}
		require.Equal(t, 5*replicas, perDay(), "on the first day")
		require.LessOrEqual(t, perDay(), 5*replicas, "on the second day")
	}
}

// The line of a set with one Machine is known: what is replaced follows what the policy says.
func TestALineIsReplacedAsOftenAsItsPolicySays(t *testing.T) {
	t.Parallel()
	policy := scale.RemediationPolicy{BackOff: contract.Some(time.Minute), MaxBackOff: contract.Some(5 * time.Minute),
		MaxReplacements: contract.Some(3), Window: time.Hour, HealthyAfter: 10 * time.Minute}
	for seed := range uint64(500) {
		w := newWard(t, seed, 1)
		count, last := 0, time.Time{}
		for range 300 {
			w.happen()
			m := w.machines[0]
			if m.Available && !m.Deleting && !m.Ailing && w.now.Sub(m.AvailableSince) >= policy.HealthyAfter || w.now.Sub(last) >= policy.Window {
				count = 0
			}
			w.past = [][]scale.Machine{slices.Clone(w.machines)}
			record := w.record
			w.pass(policy, scale.RemediationLimits{}, contract.Opt[int]{}, 0)
			lines, err := scale.ParseLines(w.record, "set")
			require.NoError(t, err)
			if w.record == record || !slices.ContainsFunc(lines, func(l scale.Line) bool { return l.Of == m.Name }) {
				continue
			}
			require.Less(t, count, 3, "seed %d", seed)
			if count > 0 {
				require.GreaterOrEqual(t, w.now.Truncate(time.Second).Sub(last), min(time.Minute<<(count-1), 5*time.Minute), "seed %d", seed)
			}
			count, last = count+1, w.now.Truncate(time.Second)
			require.Equal(t, count, lines[0].Count, "seed %d", seed)
		}
	}
}
