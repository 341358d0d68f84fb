package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// trace lets a rollout go on, sets and Machines one after the other, and returns the changes of replicas.
func trace(t *testing.T, w world, strategy rollout.Strategy) string {
	t.Helper()
	var steps []string
	n := newNames()
	for range 100 {
		d := rollout.Plan(w.facts(n, strategy))
		if d.Complete {
			return strings.Join(steps, ", ")
		}
		if replicas, ok := d.Create.Get(); ok {
			steps = append(steps, fmt.Sprintf("ms2 new %d", replicas))
		}
		for _, c := range d.Replicas {
			steps = append(steps, fmt.Sprintf("%s %d->%d", c.Set, c.From, c.To))
		}
		w = next(w, w.carryOut(d), strategy, order{goneFirst: true})
	}
	t.Fatalf("no end: %+v", w)
	return ""
}

func TestTheStepsAreThoseOfClusterAPI(t *testing.T) {
	tests := map[string]struct {
		replicas           int
		surge, unavailable int
		want               string
	}{
		"A1, one more":  {3, 1, 0, "ms2 new 1, ms1 3->2, ms2 1->2, ms1 2->1, ms2 2->3, ms1 1->0"},
		"A2, one less":  {3, 0, 1, "ms2 new 0, ms1 3->2, ms2 0->1, ms1 2->1, ms2 1->2, ms1 1->0, ms2 2->3"},
		"all at once":   {6, 10, 0, "ms2 new 6, ms1 6->5, ms1 5->4, ms1 4->3, ms1 3->2, ms1 2->1, ms1 1->0"},
		"all away":      {6, 0, 10, "ms2 new 0, ms1 6->0, ms2 0->1, ms2 1->2, ms2 2->3, ms2 3->4, ms2 4->5, ms2 5->6"},
		"without any":   {0, 1, 0, "ms2 new 0"},
		"of one, surge": {1, 1, 0, "ms2 new 1, ms1 1->0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := world{desired: test.replicas}
			w.sets[0] = worldSet{exists: true, replicas: test.replicas, count: [kinds]int{available: test.replicas}}
			got := trace(t, w, rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: test.surge, MaxUnavailable: test.unavailable})
			require.Equal(t, test.want, got)
		})
	}
}

func TestTheCurrentSetGrowsAsInClusterAPI(t *testing.T) {
	rolling, onDelete := rollout.RollingUpdate, rollout.OnDelete
	tests := map[string]struct {
		kind                              rollout.Type
		desired, surge, old, replicas, to int
	}{
		"A6, up to the surge": {rolling, 6, 3, 5, 2, 4},
		"A6, OnDelete":        {onDelete, 6, 0, 1, 2, 5},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := world{desired: test.desired, sets: [2]worldSet{
				{exists: true, replicas: test.old, count: [kinds]int{available: test.old}},
				{exists: true, replicas: test.replicas, count: [kinds]int{available: test.replicas}},
			}}
			d := rollout.Plan(w.facts(newNames(), rollout.Strategy{Type: test.kind, MaxSurge: test.surge}))
			last := d.Replicas[len(d.Replicas)-1]
			require.Equal(t, "ms2", last.Set)
			require.Equal(t, test.to, last.To)
		})
	}
}

func TestResolveRoundsAsKubernetes(t *testing.T) {
	tests := map[string]struct {
		surge, unavailable string
		desired            int
		wantUp, wantDown   int
	}{
		"A5, both zero of zero":      {"0%", "0%", 0, 0, 1},
		"A5, 39% of 10":              {"39%", "39%", 10, 4, 3},
		"A5, one per cent of two":    {"0%", "1%", 2, 0, 1},
		"A5, a quarter of one":       {"1%", "25%", 1, 1, 0},
		"numbers stay what they are": {"2", "1", 10, 2, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := rollout.Resolve("", contract.Some(intstr.Parse(test.surge)), contract.Some(intstr.Parse(test.unavailable)), test.desired)
			require.NoError(t, err)
			require.Equal(t, rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: test.wantUp, MaxUnavailable: test.wantDown}, s)
		})
	}
	_, err := rollout.Resolve("", contract.Some(intstr.FromString("5")), contract.Opt[intstr.IntOrString]{}, 3)
	require.ErrorContains(t, err, "maxSurge")
	s, err := rollout.Resolve("", contract.Opt[intstr.IntOrString]{}, contract.Opt[intstr.IntOrString]{}, 3)
	require.NoError(t, err)
	require.Equal(t, 1, s.MaxSurge)
}

func TestAPausedDeploymentScalesInProportion(t *testing.T) {
	tests := map[string]struct {
		w    world
		want string
	}{
		"up, the larger set gets what is left over": {paused(10, 3, 2), "[{ms1 3->6} {ms2 2->4}]"},
		"down to desired and surge":                 {paused(2, 4, 2), "[{ms1 4->2} {ms2 2->1}]"},
		"as many as desired and surge":              {paused(4, 3, 2), "[]"},
		"one set takes all":                         {paused(2, 3, 0), "[{ms1 3->2}]"},
		"to none, without the surge":                {paused(0, 3, 2), "[{ms1 3->0} {ms2 2->0}]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := test.w.facts(newNames(), rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: 1})
			f.Paused = true
			d := rollout.Plan(f)
			require.Empty(t, broken(f, d))
			require.False(t, d.Create.Found())
			require.Equal(t, test.want, changes(d))
			require.Equal(t, "the rollout is paused", d.Blocked[0])
		})
	}
}

func paused(desired, old, current int) world {
	return world{desired: desired, sets: [2]worldSet{
		{exists: true, replicas: old, count: [kinds]int{available: old}},
		{exists: current > 0, replicas: current, count: [kinds]int{available: current}},
	}}
}

func changes(d rollout.Decision) string {
	var parts []string
	for _, c := range d.Replicas {
		parts = append(parts, fmt.Sprintf("{%s %d->%d}", c.Set, c.From, c.To))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func TestASetThatOwnsAMarkedMachineShrinks(t *testing.T) {
	w := paused(4, 3, 2)
	w.sets[1].count = [kinds]int{available: 1, marked: 1}
	f := w.facts(newNames(), rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: 1})
	for _, stop := range []bool{true, false} {
		f.Paused = stop
		d := rollout.Plan(f)
		require.Equal(t, "[{ms2 2->1}]", changes(d))
		require.Equal(t, []scale.Victim{{Name: "1-3-00", UID: types.UID("1-3-00")}}, d.Replicas[0].Victims)
	}
}

func TestAMarkThatNoPlanNeedsIsTakenAway(t *testing.T) {
	w := paused(2, 0, 2)
	w.sets[1].count = [kinds]int{available: 1, mineAvailable: 1}
	d := rollout.Plan(w.facts(newNames(), rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: 1}))
	require.Equal(t, map[types.UID]bool{"1-5-00": true}, d.Unmark)
}

func TestASetBeforeTheRolloutTimeIsOutdated(t *testing.T) {
	n := newNames()
	f := paused(2, 0, 2).facts(n, rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: 1})
	f.Sets = f.Sets[1:]
	f.After, f.Now = n.created.Add(2*time.Hour), n.created.Add(time.Hour)
	require.False(t, rollout.Plan(f).Create.Found(), "it is still to come")
	f.Now = f.After
	d := rollout.Plan(f)
	require.Equal(t, contract.Some(1), d.Create)
	require.Equal(t, int64(3), d.Revision)
	f.Holds = []string{"no template"}
	require.Equal(t, f.Holds, rollout.Plan(f).Blocked)
	require.False(t, rollout.Plan(f).Create.Found())
}
