package healthcheck_test

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// world is a set that replaces what is marked, in its own time, and Machines that fail when chance has it.
type world struct {
	r        *rand.Rand
	machines []healthcheck.Machine
	ledger   healthcheck.Ledger
	known    bool
	serial   int
	at       time.Time
	desired  int
	calm     bool // no failure is an outage: a Machine that is always healthy is beside the others, and domains are unknown
	// lost are the Machines that disappeared by a mark, and have no healthy replacement. started are those that were healthy once.
	lost, started map[types.UID]bool
}

func (w *world) create() {
	w.serial++
	w.machines = append(w.machines, healthcheck.Machine{
		Name: fmt.Sprintf("m%04d", w.serial), UID: types.UID(fmt.Sprintf("u%04d", w.serial)), Created: w.at, Group: "set",
		Domain: string("abc"[w.serial%3]), Verdict: healthcheck.Verdict{Unstarted: true, Since: w.at},
	})
}

// change lets one thing happen to one Machine.
func (w *world) change() {
	w.at = w.at.Add(time.Duration(w.r.Intn(600)) * time.Second)
	if len(w.machines) < w.desired && w.r.Intn(3) == 0 {
		w.create()
	}
	if len(w.machines) == 0 {
		return
	}
	i := w.r.Intn(len(w.machines))
	m := &w.machines[i]
	switch w.r.Intn(7) {
	case 0, 1:
		m.Verdict = healthcheck.Verdict{Class: healthcheck.Unhealthy, Since: w.at.Add(-time.Duration(w.r.Intn(7200)) * time.Second),
			Unstarted: m.Verdict.Unstarted}
	case 2:
		m.Verdict = healthcheck.Verdict{Suspect: true, Since: w.at}
	case 3:
		m.Verdict = healthcheck.Verdict{Reason: healthcheck.ReasonNodeUnread} // the cluster cannot be reached
	case 4:
		if !m.Deleting {
			w.heal(m)
		}
	case 5, 6:
		if m.Deleting {
			w.machines = slices.Delete(w.machines, i, i+1)
		} else if m.Marked {
			m.Deleting = true
		}
	}
}

// heal has a Machine be healthy. A new one ends the loss of one that disappeared.
func (w *world) heal(m *healthcheck.Machine) {
	fresh := !w.started[m.UID]
	w.started[m.UID] = true
	m.Verdict = healthcheck.Verdict{Class: healthcheck.Healthy}
	delete(w.lost, m.UID)
	if fresh {
		for _, uid := range slices.Sorted(maps.Keys(w.lost)) {
			if !slices.ContainsFunc(w.machines, func(have healthcheck.Machine) bool { return have.UID == uid }) {
				delete(w.lost, uid)
				return
			}
		}
	}
}

// carryOut does what a reconciler does, which may stop at any point: the ledger is stored before Machines are marked.
func (w *world) carryOut(d healthcheck.Decision) {
	if w.r.Intn(5) == 0 {
		return // the write of the ledger is rejected, and nothing follows it
	}
	w.ledger, w.known = d.Ledger, true
	for _, o := range d.Outcomes {
		at := slices.IndexFunc(w.machines, func(m healthcheck.Machine) bool { return m.Name == o.Name })
		if at < 0 {
			continue
		}
		m := &w.machines[at]
		switch {
		case w.r.Intn(5) == 0: // rejected
		case o.Action == healthcheck.ActionMark:
			m.Marked = true
			if w.started[m.UID] { // one that never was healthy takes the place of another
				w.lost[m.UID] = true
			}
		case o.Action == healthcheck.ActionUnmark:
			m.Marked = false
		}
	}
}

// recovered has all Machines be replaced that are to be, and all be healthy, and returns what is decided then.
func (w *world) recovered(t *testing.T, most string) healthcheck.Decision {
	t.Helper()
	w.at = w.at.Add(time.Minute)
	w.machines = slices.DeleteFunc(w.machines, func(m healthcheck.Machine) bool { return m.Deleting })
	for len(w.machines) < w.desired {
		w.create()
	}
	for i := range w.machines {
		w.heal(&w.machines[i])
		w.machines[i].Marked = false
	}
	return healthcheck.Plan(w.facts(t, most, w.at))
}

// facts are what a check sees at a time. The set replaces in its own time, so no place expires.
func (w *world) facts(t *testing.T, most string, at time.Time) healthcheck.PlanFacts {
	t.Helper()
	for i := range w.ledger.InFlight {
		if e := &w.ledger.InFlight[i]; e.Gone != 0 {
			e.Gone = at.Unix()
		}
	}
	f := healthcheck.PlanFacts{Machines: slices.Clone(w.machines), Ledger: w.ledger, Known: w.known, Now: at}
	f.MaxUnhealthy, f.UnhealthyRange = limits(most)
	if w.calm {
		for i := range f.Machines {
			f.Machines[i].Domain = ""
		}
		f.Machines = append(f.Machines, healthcheck.Machine{Name: "calm", UID: "calm", Group: "another",
			Verdict: healthcheck.Verdict{Class: healthcheck.Healthy}})
	}
	return f
}

func TestNoSequenceOfObservationsMakesMoreThanTheBudgetDisappear(t *testing.T) {
	for _, budget := range []struct {
		limit string
		calm  bool
		most  int
	}{
		{"3", false, 3},
		{"[1-4]", true, 4},
		{"0", false, 0},
	} {
		marked := 0
		for seed := range int64(60) {
			w := &world{r: rand.New(rand.NewSource(seed)), at: now, desired: 12, calm: budget.calm, lost: map[types.UID]bool{},
				started: map[types.UID]bool{}} //nolint:gosec // a test with a seed
			for range w.desired {
				w.create()
				w.heal(&w.machines[len(w.machines)-1])
			}
			for range 300 {
				w.change()
				if w.r.Intn(40) == 0 && len(w.lost) == 0 {
					w.ledger, w.known = healthcheck.Ledger{}, false // a person removes the annotation
				}
				off := time.Duration(w.r.Intn(481)-240) * time.Second // the clocks of processes differ
				w.carryOut(healthcheck.Plan(w.facts(t, budget.limit, w.at.Add(off))))
				marked = max(marked, len(w.lost))
				require.LessOrEqual(t, len(w.lost), budget.most, "limit %s, seed %d", budget.limit, seed)
			}
			require.Empty(t, w.recovered(t, budget.limit).Ledger.InFlight, "limit %s, seed %d", budget.limit, seed)
		}
		require.Equal(t, budget.most, marked, "limit %s: the budget is used", budget.limit)
	}
}

// A set was scaled down while one of its Machines was replaced: the place of that one stays empty, and counts as one of the Machines.
func TestAPlaceThatIsNotFilledCountsAsAMachineThatIsUnhealthy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ states, most, want string }{
		"all may be unhealthy":  {"uu", "100%", "Mark Mark"},
		"two thirds of three":   {"uh", "67%", "Mark None"},
		"half of three is one":  {"uh", "50%", "Hold/TooManyUnhealthy None"},
		"a number is a number":  {"uh", "1", "Hold/TooManyUnhealthy None"},
		"none of three is well": {"uu", "67%", "Hold/TooManyUnhealthy Hold/TooManyUnhealthy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := planned(t, c.states, c.most)
			f.Ledger.InFlight = []healthcheck.Entry{{Machine: "gone", Group: "deployment", After: now.Add(-time.Minute).Unix(), Decided: true}}
			require.Equal(t, c.want, acts(healthcheck.Plan(f)))
		})
	}
}
