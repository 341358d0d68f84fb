package scale_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// states are what a Machine can be like, as far as a plan can tell.
func states() []scale.Machine {
	up := scale.Machine{Priority: scale.DefaultPriority, Ready: true, Available: true}
	with := func(change func(*scale.Machine)) scale.Machine {
		m := up
		change(&m)
		return m
	}
	return []scale.Machine{
		up,
		with(func(m *scale.Machine) { m.Deleting = true }),
		with(func(m *scale.Machine) { m.Deleting, m.Available, m.Ready = true, false, false }),
		with(func(m *scale.Machine) { m.Marked = true }),
		with(func(m *scale.Machine) { m.Marked, m.Unhealthy, m.Available, m.Ready = true, true, false, false }),
		with(func(m *scale.Machine) { m.Unhealthy, m.Available, m.Ready = true, false, false }),
		with(func(m *scale.Machine) { m.Available, m.Ready = false, false }),
		with(func(m *scale.Machine) { m.Available = false }),
		with(func(m *scale.Machine) { m.Priority = 1 }),
	}
}

// fleets calls do with every multiset of up to n Machines. They are the same slice, changed between calls.
func fleets(n int, do func([]scale.Machine)) {
	kinds := states()
	var grow func(fleet []scale.Machine, from int)
	grow = func(fleet []scale.Machine, from int) {
		do(fleet)
		if len(fleet) == n {
			return
		}
		for i := from; i < len(kinds); i++ {
			m := kinds[i]
			m.Name = fmt.Sprintf("m%d", len(fleet))
			m.UID = types.UID(m.Name)
			grow(append(fleet, m), i)
		}
	}
	grow(make([]scale.Machine, 0, n), 0)
}

// policy is how a set decides.
type policy struct {
	order   scale.Order
	ceiling int
}

func policies() map[string]policy {
	return map[string]policy{
		"default":     {ceiling: scale.Ceiling},
		"the oldest":  {order: scale.Oldest, ceiling: scale.Ceiling},
		"the newest":  {order: scale.Newest, ceiling: scale.Ceiling},
		"two at once": {ceiling: 2},
	}
}

func TestPlan_NoStepWorsensABoundForAnyFleetOfSix(t *testing.T) {
	t.Parallel()
	checked := 0
	for name, policy := range policies() {
		fleets(6, func(fleet []scale.Machine) {
			for desired := range 8 {
				for reserved := range 3 {
					f := scale.Facts{Desired: contract.Some(desired), Machines: fleet, Reserved: reserved, Order: policy.order}
					d := scale.PlanWithin(f, policy.ceiling)
					checked++
					if wrong := breaks(f, desired, policy.ceiling, d); wrong != "" {
						t.Fatalf("%s: desired %d, reserved %d: %s\nfleet: %+v\ndecision: %+v", name, desired, reserved, wrong, fleet, d)
					}
				}
			}
		})
	}
	t.Logf("%d plans", checked)
}

// tally is what a decision does to a fleet.
type tally struct {
	counted, active                  int
	again, markedStays, unmarkedGoes bool
}

func tallyOf(f scale.Facts, d scale.Decision) tally {
	gone := map[types.UID]bool{}
	for _, v := range d.Delete {
		gone[v.UID] = true
	}
	t := tally{again: len(gone) != len(d.Delete)}
	for _, m := range f.Machines {
		goes := gone[m.UID]
		if m.Deleting {
			t.again = t.again || goes
			continue
		}
		t.active++
		t.markedStays = t.markedStays || (m.Marked && !goes)
		t.unmarkedGoes = t.unmarkedGoes || (!m.Marked && goes)
	}
	t.counted = len(f.Machines)
	return t
}

// breaks says which rule a decision breaks.
func breaks(f scale.Facts, desired, ceiling int, d scale.Decision) string {
	t := tallyOf(f, d)
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{t.again, "a Machine is deleted twice"},
		{d.Create > 0 && len(d.Delete) > 0, "it creates and deletes"},
		{d.Create < 0 || d.Abandon < 0 || d.Abandon > f.Reserved, "impossible numbers"},
		{d.Create > 0 && t.counted+f.Reserved+d.Create > desired, "it creates more than wanted"},
		{d.Create > ceiling || len(d.Delete) > ceiling, "it does more than the ceiling allows"},
		{t.active-len(d.Delete) < min(desired, t.active), "it deletes more than there are too many"},
		{t.markedStays && t.unmarkedGoes, "an unmarked Machine goes while a marked one stays"},
		{d.Abandon > 0 && t.counted+f.Reserved-d.Abandon < desired, "it abandons slots that are wanted"},
		{len(d.Delete) != min(ceiling, max(0, t.active-desired)), "it does not delete what it should"},
		{d.Create != min(ceiling, max(0, desired-t.counted-f.Reserved)), "it does not create what it should"},
	} {
		if rule.broken {
			return rule.text
		}
	}
	return ""
}

func TestPlan_ReachesWhatIsWantedFromEveryFleet(t *testing.T) {
	t.Parallel()
	for name, policy := range policies() {
		fleets(5, func(fleet []scale.Machine) {
			for desired := range 7 {
				now := slices.Clone(fleet)
				steps, next := 0, 100
				for ; steps < 20; steps++ {
					d := scale.PlanWithin(scale.Facts{Desired: contract.Some(desired), Machines: now, Order: policy.order}, policy.ceiling)
					for _, v := range d.Delete {
						at := slices.IndexFunc(now, func(m scale.Machine) bool { return m.UID == v.UID })
						now[at].Deleting = true
					}
					for range d.Create {
						next++
						now = append(now, scale.Machine{Name: fmt.Sprint("n", next), UID: types.UID(fmt.Sprint("n", next)), Priority: scale.DefaultPriority})
					}
					if len(d.Delete) == 0 && d.Create == 0 &&
						!slices.ContainsFunc(now, func(m scale.Machine) bool { return m.Deleting }) {
						break
					}
					now = slices.DeleteFunc(now, func(m scale.Machine) bool { return m.Deleting }) // their deletions end
					for i := range now {
						now[i].Ready, now[i].Available, now[i].Unhealthy = true, true, false // and the others come up
					}
				}
				require.Len(t, now, desired, "%s after %d steps: %+v", name, steps, fleet)
			}
		})
	}
}

func TestPlan_ReservesNoMoreNamesThanAnAnnotationHolds(t *testing.T) {
	t.Parallel()
	f := scale.Facts{Desired: contract.Some(100_000)}
	d := scale.PlanWithin(f, 50_000)
	l, _ := scale.NewLedger().Reserve(d.Create, naming(t, strings.Repeat("a", 60)+"{{ .random }}"), nil)
	require.Less(t, len(l.String()), 150_000)
	f.Reserved = len(l.Pending)
	require.Zero(t, scale.Plan(f).Create)
	require.Equal(t, scale.Ceiling, scale.Plan(scale.Facts{Desired: contract.Some(500)}).Create)
}

func TestPlan_TakesTheMachinesThatPeopleExpect(t *testing.T) {
	t.Parallel()
	fleet := []scale.Machine{
		{Name: "healthy", UID: "1", Priority: 3, Ready: true, Available: true},
		{Name: "not-ready", UID: "2", Priority: 3},
		{Name: "unhealthy", UID: "3", Priority: 3, Unhealthy: true},
		{Name: "updating", UID: "4", Priority: 3, Ready: true, Updating: true},
		{Name: "cheap", UID: "5", Priority: 1, Ready: true, Available: true},
		{Name: "marked", UID: "6", Priority: 3, Marked: true, Ready: true, Available: true},
		{Name: "dear", UID: "7", Priority: 5, Unhealthy: true},
	}
	d := scale.Plan(scale.Facts{Desired: contract.Some(0), Machines: fleet})
	var names []string
	for _, v := range d.Delete {
		names = append(names, v.Name)
	}
	if diff := cmp.Diff([]string{"marked", "cheap", "updating", "unhealthy", "not-ready", "healthy", "dear"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlan_CreatesNothingWhileItIsHeld(t *testing.T) {
	t.Parallel()
	up := scale.Machine{Name: "a", UID: "a", Ready: true, Available: true}
	for name, c := range map[string]struct {
		facts scale.Facts
		want  scale.Decision
	}{
		"how many is not said": {scale.Facts{Machines: []scale.Machine{up}}, scale.Decision{}},
		"frozen":               {scale.Facts{Desired: contract.Some(2), Held: true}, scale.Decision{}},
		"frozen sets shrink": {scale.Facts{Desired: contract.Some(0), Machines: []scale.Machine{up}, Held: true},
			scale.Decision{Delete: []scale.Victim{{Name: "a", UID: "a"}}}},
		"a negative number is none": {scale.Facts{Desired: contract.Some(-3), Machines: []scale.Machine{up}},
			scale.Decision{Delete: []scale.Victim{{Name: "a", UID: "a"}}}},
		"reserved slots count": {scale.Facts{Desired: contract.Some(5), Machines: []scale.Machine{up}, Reserved: 3},
			scale.Decision{Create: 1}},
		"reserved slots are given up before Machines go": {scale.Facts{Desired: contract.Some(1), Machines: []scale.Machine{up}, Reserved: 2},
			scale.Decision{Abandon: 2}},
	} {
		got := scale.Plan(c.facts)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func fleet(n int) []scale.Machine {
	all := make([]scale.Machine, n)
	for i := range all {
		name := fmt.Sprintf("machine-%05d", i)
		all[i] = scale.Machine{Name: name, UID: types.UID(name), Priority: scale.DefaultPriority, Created: time.Unix(int64(i*7919%n), 0),
			Ready: i%3 != 0, Available: i%3 == 1, Unhealthy: i%11 == 0, Marked: i%97 == 0}
	}
	return all
}

// Linear: the figure for each Machine stays as the fleet grows.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) {
			f := scale.Facts{Desired: contract.Some(n / 2), Machines: fleet(n), Order: scale.Oldest}
			b.ReportAllocs()
			for b.Loop() {
				_ = scale.PlanWithin(f, n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/machine")
		})
	}
}
