package scale_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestParseOrder_NamesTheOrdersThereAre(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]scale.Order{"": scale.Random, "Random": scale.Random, "Newest": scale.Newest, "Oldest": scale.Oldest} {
		got, err := scale.ParseOrder(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := scale.ParseOrder("Cheapest")
	require.EqualError(t, err, `deletion order "Cheapest": want Random, Newest or Oldest`)
}

// Cluster API adds weights up, and an old healthy Machine then weighs as much as an unhealthy one.
func TestOrder_AgeNeverOutweighsHealth(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := func(age time.Duration) scale.Machine {
		return scale.Machine{Name: age.String(), UID: types.UID(age.String()), Created: now.Add(-age), Ready: true}
	}
	const day = 24 * time.Hour
	sick := at(day)
	sick.Unhealthy, sick.Name = true, "zz-sick"
	for _, age := range []time.Duration{time.Second, day, 300 * day, 375 * day, 2000 * day} {
		require.Negative(t, scale.Oldest.Compare(sick, at(age)))
		require.Negative(t, scale.Newest.Compare(sick, at(age)))
	}
	require.Negative(t, scale.Oldest.Compare(at(400*day+time.Second), at(400*day)), "ages that differ by a second are told apart at any age")
	require.Positive(t, scale.Newest.Compare(at(400*day+time.Second), at(400*day)))
	unknown := scale.Machine{Name: "unknown", UID: "unknown", Ready: true}
	require.Positive(t, scale.Oldest.Compare(unknown, at(day)), "one without a time of creation goes last")
	require.Positive(t, scale.Newest.Compare(unknown, at(day)))
}

func TestOrder_IsTotalAndDoesNotDependOnTheInput(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, order := range []scale.Order{scale.Random, scale.Newest, scale.Oldest, ""} {
		all := fleet(60)
		for i := range all {
			all[i].Created = time.Unix(int64(i%4), 0)
		}
		want := slices.SortedFunc(slices.Values(all), order.Compare)
		for range 20 {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			if diff := gocmp.Diff(want, slices.SortedFunc(slices.Values(all), order.Compare), gocmp.AllowUnexported(scale.Machine{})); diff != "" {
				t.Fatal(diff)
			}
		}
		for i := range want {
			for j := range want {
				require.Equal(t, cmp.Compare(i, j), sign(order.Compare(want[i], want[j])))
			}
		}
	}
}

func sign(n int) int { return cmp.Compare(n, 0) }

func TestRandom_HasNoPreference(t *testing.T) {
	t.Parallel()
	all := make([]scale.Machine, 400)
	random := rand.New(rand.NewPCG(1, 2)) // an API server makes UIDs at random
	for i := range all {
		name := string(rune('a'+i/20)) + string(rune('a'+i%20))
		all[i] = scale.Machine{Name: name, UID: types.UID(fmt.Sprintf("%016x", random.Uint64())), Created: time.Unix(int64(i), 0)}
	}
	low := 0
	for _, m := range slices.SortedFunc(slices.Values(all), scale.Random.Compare)[:200] {
		if m.Created.Unix() < 200 {
			low++
		}
	}
	require.InDelta(t, 100, low, 40, "half of those that go first are old")
}

func FuzzPlan_TakesThoseThatGoFirst(f *testing.F) {
	f.Add(uint64(1), 10, 5)
	f.Add(uint64(2), 300, 299)
	f.Add(uint64(3), 2, 0)
	f.Fuzz(func(t *testing.T, seed uint64, n, desired int) {
		n, desired = min(max(n, 0), 500), min(max(desired, 0), 600)
		random := rand.New(rand.NewPCG(seed, 0))
		all := fleet(n)
		for i := range all {
			all[i].Deleting = random.IntN(5) == 0
			all[i].Created = time.Unix(random.Int64N(10), 0)
			all[i].Priority = random.IntN(3)
		}
		random.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
		order := []scale.Order{scale.Random, scale.Newest, scale.Oldest}[random.IntN(3)]
		facts := scale.Facts{Desired: contract.Some(desired), Machines: all, Reserved: random.IntN(4), Order: order}
		got := scale.PlanWithin(facts, 1000)
		if wrong := breaks(facts, desired, 1000, got); wrong != "" {
			t.Fatal(wrong)
		}
		var want []scale.Victim
		for _, m := range slices.SortedFunc(slices.Values(all), order.Compare) {
			if !m.Deleting && len(want) < len(got.Delete) {
				want = append(want, scale.Victim{Name: m.Name, UID: m.UID})
			}
		}
		if diff := gocmp.Diff(want, got.Delete); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestOf_ReadsWhatAPlanNeeds(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	is := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status}
	}
	state := func(annotations map[string]string, conditions ...metav1.Condition) *contract.MachineState {
		s := &contract.MachineState{Node: contract.NodeRef{Name: "n"}, Conditions: conditions}
		s.Key.Name, s.UID, s.Created, s.Annotations = "m", "u", created, annotations
		return s
	}
	base := scale.Machine{Name: "m", UID: "u", Created: created, Priority: 3}
	with := func(change func(*scale.Machine)) scale.Machine {
		m := base
		change(&m)
		return m
	}
	withoutNode := state(nil)
	withoutNode.Node.Name = ""
	deleting := state(nil)
	deleting.Deleting = created
	for name, c := range map[string]struct {
		state *contract.MachineState
		want  scale.Machine
	}{
		"nothing known": {state(nil), base},
		"no Node":       {withoutNode, with(func(m *scale.Machine) { m.Unhealthy = true })},
		"being deleted": {deleting, with(func(m *scale.Machine) { m.Deleting = true })},
		"ready and available": {state(nil, is("Ready", "True"), is("Available", "True"), is("NodeHealthy", "Unknown")),
			with(func(m *scale.Machine) { m.Ready, m.Available = true, true })},
		"unhealthy Node":      {state(nil, is("NodeHealthy", "False")), with(func(m *scale.Machine) { m.Unhealthy = true })},
		"failed health check": {state(nil, is("HealthCheckSucceeded", "False")), with(func(m *scale.Machine) { m.Unhealthy = true })},
		"failed health check that waits for the owner": {state(nil, is("HealthCheckSucceeded", "False"), is("OwnerRemediated", "False")),
			with(func(m *scale.Machine) { m.Unhealthy, m.Ailing = true, true })},
		"recovered": {state(nil, is("HealthCheckSucceeded", "True"), is("OwnerRemediated", "False")),
			with(func(m *scale.Machine) { m.SayRecovered() })},
		"deferred, and not judged any more": {state(nil, metav1.Condition{
			Type: "OwnerRemediated", Status: "False", Reason: contract.ReasonRemediationDeferred,
		}), with(func(m *scale.Machine) { m.SayRecovered() })},
		"requested by another program without a verdict": {state(nil, is("OwnerRemediated", "False")), base},
		"marked, whatever it says": {state(map[string]string{scale.DeleteAnnotation: "false"}),
			with(func(m *scale.Machine) { m.Marked = true })},
		"marked by Gardener": {state(map[string]string{scale.MarkedAtAnnotation: "2026-03-01T00:00:00Z", scale.PriorityAnnotation: "1"}),
			with(func(m *scale.Machine) { m.MarkAt(created); m.Priority = 1 })},
		"marked by the key of another group": {state(map[string]string{"example.com/delete-machine": "now"}),
			with(func(m *scale.Machine) { m.Marked = true })},
		"marks that make no sense": {state(map[string]string{scale.MarkedAtAnnotation: "soon", scale.PriorityAnnotation: "high"}), base},
		"updated in place": {state(map[string]string{contract.InPlaceUpdateAnnotation: ""}),
			with(func(m *scale.Machine) { m.Updating = true })},
		"an update that is pending": {state(map[string]string{contract.PendingHooksAnnotation: "Other,UpdateMachine"}),
			with(func(m *scale.Machine) { m.Updating = true })},
		"created for a slot":     {state(scale.Stamp{Set: "set", Slot: 7}.Annotations()), with(func(m *scale.Machine) { m.Slot = 7 })},
		"created by another set": {state(scale.Stamp{Set: "other", Slot: 7}.Annotations()), base},
		"another hook":           {state(map[string]string{contract.PendingHooksAnnotation: "UpdateMachineSet"}), base},
	} {
		if diff := gocmp.Diff(c.want, scale.Of(c.state, "set", scale.Marks("example.com")...),
			gocmp.AllowUnexported(scale.Machine{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAPausedMachineDoesNotSayThatItsClusterDoesNotAnswer(t *testing.T) {
	t.Parallel()
	m := &contract.MachineState{Conditions: []metav1.Condition{
		{Type: contract.ConditionNodeReady, Status: metav1.ConditionUnknown, Reason: contract.ReasonConnectionDown},
	}}
	require.True(t, scale.Unreachable(m))
	m.Annotations = map[string]string{contract.PausedAnnotation: ""}
	require.False(t, scale.Unreachable(m), "a person paused it during the outage, which has ended since")
}
