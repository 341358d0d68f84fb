package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// setWith returns a set of Machines, each given by its name and by what is odd about it: "a b:broken c:paused,marked".
func setWith(name, machines string) rollout.Set {
	s := rollout.Set{Name: name, UID: types.UID(name), Created: time.Unix(int64(name[0]), 0)}
	for one := range strings.FieldsSeq(machines) {
		called, odd, _ := strings.Cut(one, ":")
		is := func(what string) bool { return strings.Contains(odd, what) }
		up := !is("broken") && !is("ailing")
		m := rollout.Machine{Machine: scale.Machine{
			Name: called, UID: types.UID(called), Created: time.Unix(int64(called[0]), 0), Ready: up, Available: up,
			Ailing: is("ailing"), Paused: is("paused"), Marked: is("marked"),
		}}
		if is("selected") {
			m.InPlace, m.InPlaceSet = rollout.Selected, "new"
		}
		s.Machines = append(s.Machines, m)
	}
	s.Replicas = len(s.Machines)
	return s
}

// goes are the Machines that a decision replaces or updates, and what it waits for.
func goes(d rollout.Decision) ([]string, string) {
	var names []string
	for _, c := range d.Replicas {
		for _, v := range c.Victims {
			names = append(names, v.Name)
		}
	}
	for uid, to := range d.InPlace {
		if to == rollout.Selected {
			names = append(names, string(uid))
		}
	}
	return names, strings.Join(d.Blocked, "\n")
}

// A set of three Machines is outdated, of which one is broken: alone, or with a mark of a health check. One Machine may be unavailable.
func TestABrokenOutdatedMachine(t *testing.T) {
	const rolling, onDelete, inPlace, recreate = rollout.RollingUpdate, rollout.OnDelete, rollout.InPlaceAuto, rollout.Recreate
	tests := map[string]struct {
		kind           rollout.Type
		surge          int
		old, current   string
		paused, cannot bool
		want, waits    string
	}{
		"RollingUpdate takes it first":                    {kind: rolling, old: "a b:broken c", want: "b"},
		"RollingUpdate takes it first, marked":            {kind: rolling, old: "a b:ailing c", want: "b"},
		"RollingUpdate waits for what replaces it":        {kind: rolling, surge: 1, old: "a b:ailing c", current: "n:broken"},
		"RollingUpdate takes it when that is there":       {kind: rolling, surge: 1, old: "a b:ailing c", current: "n", want: "b"},
		"RollingUpdate leaves it while paused":            {kind: rolling, old: "a b:ailing c", paused: true, waits: "is paused"},
		"RollingUpdate leaves it without a replacement":   {kind: rolling, old: "a b:ailing c", cannot: true, waits: "no template"},
		"Recreate takes all":                              {kind: recreate, old: "a b:broken c", want: "b a c"},
		"Recreate leaves it while paused":                 {kind: recreate, old: "a b:ailing c", paused: true, waits: "is paused"},
		"Recreate leaves all without a replacement":       {kind: recreate, old: "a b:broken c", cannot: true, waits: "no template"},
		"OnDelete leaves it to a user":                    {kind: onDelete, old: "a b:broken c", waits: "3 outdated Machines must be deleted"},
		"OnDelete leaves it to its set":                   {kind: onDelete, old: "a b:ailing c", waits: "3 outdated Machines must be deleted"},
		"OnDelete leaves it while paused":                 {kind: onDelete, old: "a b:ailing c", paused: true, waits: "is paused"},
		"in place, others do not wait for it":             {kind: inPlace, old: "a b:broken c", want: "a"},
		"in place, others go one at a time":               {kind: inPlace, old: "a:selected b:broken c"},
		"in place, it is updated last":                    {kind: inPlace, old: "b:broken", current: "x y", want: "b"},
		"in place, its set replaces it":                   {kind: inPlace, old: "b:ailing", current: "x y", waits: "b to be replaced"},
		"in place, others do not wait for a set":          {kind: inPlace, old: "a b:ailing c", want: "a", waits: "b to be replaced"},
		"in place with a surge, others do not wait":       {kind: inPlace, surge: 1, old: "a b:broken c", current: "n", want: "a"},
		"in place, updates that break Machines stop":      {kind: inPlace, old: "a b", current: "x:broken"},
		"in place leaves it while paused":                 {kind: inPlace, old: "a b:broken c", paused: true, waits: "is paused"},
		"in place leaves all while the set cannot create": {kind: inPlace, old: "a b:broken c", cannot: true, waits: "no template"},
		"in place by hand, a user selects":                {kind: rollout.InPlaceManual, old: "a b:broken c", waits: "waiting for a user"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := rollout.Facts{
				Desired: contract.Some(3), Paused: test.paused,
				Strategy: rollout.Strategy{Type: test.kind, MaxSurge: test.surge, MaxUnavailable: 1 - test.surge},
				Sets:     []rollout.Set{setWith("old", test.old), setWith("new", test.current)},
			}
			f.Sets[1].Matches = true
			if test.cannot {
				f.Holds = []string{"no template"}
			}
			d := rollout.Plan(f)
			got, waits := goes(d)
			require.Equal(t, test.want, strings.Join(got, " "), "%+v", d)
			require.Contains(t, waits, test.waits)
			require.Equal(t, test.paused || test.cannot, d.Stalled)
		})
	}
}

func TestAPausedMachineIsNotReplaced(t *testing.T) {
	const rolling, onDelete, inPlace, recreate = rollout.RollingUpdate, rollout.OnDelete, rollout.InPlaceAuto, rollout.Recreate
	tests := map[string]struct {
		kind         rollout.Type
		desired      int
		old, current string
		want         string
		waits        bool
	}{
		"not by a rolling update":           {kind: rolling, desired: 3, old: "a:paused b c", want: "b", waits: true},
		"nor when it is broken":             {kind: rolling, desired: 3, old: "a b:broken,paused c", current: "n", want: "a", waits: true},
		"nor when others have marked it":    {kind: rolling, desired: 3, old: "a:paused,marked b c", want: "b", waits: true},
		"nor when it is the last one":       {kind: rolling, desired: 3, old: "a:paused", current: "x y", waits: true},
		"nor by Recreate":                   {kind: recreate, desired: 3, old: "a:paused b c", want: "b c", waits: true},
		"nor updated in place":              {kind: inPlace, desired: 3, old: "a:paused b c", want: "b", waits: true},
		"nor as the last one in place":      {kind: inPlace, desired: 3, old: "a:paused", current: "x y", waits: true},
		"a scale-down takes others first":   {kind: rolling, desired: 2, current: "a:paused b:paused c", want: "c"},
		"and paused ones when none is left": {kind: rolling, desired: 1, current: "a:paused b:paused c", want: "c a"},
		"one that is marked goes first":     {kind: rolling, desired: 2, current: "a b:paused,marked c", want: "b"},
		"all of them go where none is due":  {kind: rolling, desired: 0, old: "a:paused", current: "b:paused", want: "b a"},
		"a scale-down with OnDelete":        {kind: onDelete, desired: 2, old: "a:paused b c", want: "b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := rollout.Facts{
				Desired: contract.Some(test.desired), Strategy: rollout.Strategy{Type: test.kind, MaxUnavailable: 1},
				Sets: []rollout.Set{setWith("old", test.old), setWith("new", test.current)},
			}
			f.Sets[1].Matches = true
			for _, paused := range []bool{false, true} { // a paused rollout scales, and replaces nothing
				f.Paused = paused
				got, waits := goes(rollout.Plan(f))
				want := test.want
				if paused && len(f.Sets[0].Machines)+len(f.Sets[1].Machines) <= test.desired {
					want = ""
				}
				require.Equal(t, want, strings.Join(got, " "))
				require.Equal(t, test.waits && !paused, strings.Contains(waits, "paused Machines are neither replaced nor updated"), waits)
			}
		})
	}
}

func TestASetThatCannotCreateTakesNothingAway(t *testing.T) {
	for _, kind := range []rollout.Type{rollout.RollingUpdate, rollout.Recreate, rollout.OnDelete, rollout.InPlaceAuto} {
		for desired := range 5 {
			t.Run(fmt.Sprintf("%s to %d", kind, desired), func(t *testing.T) {
				f := rollout.Facts{
					Desired: contract.Some(desired), Strategy: rollout.Strategy{Type: kind, MaxUnavailable: 2},
					Sets:  []rollout.Set{setWith("old", "a b c"), setWith("new", "")},
					Holds: []string{"no template"},
				}
				f.Sets[1].Matches = true
				d := rollout.Plan(f)
				got, waits := goes(d)
				require.Len(t, got, max(3-desired, 0), "a scale-down goes on")
				require.Contains(t, waits, "no template")
				f.Sets[0].Machines, f.Sets[0].Replicas = nil, 0
				d = rollout.Plan(f)
				require.NotContains(t, fmt.Sprint(d.Blocked), "no template", "nothing is left to go: the condition is the set's")
			})
		}
	}
}

// A person has adopted a set, or made one, with the template of the deployment.
func TestASecondSetWithTheTemplateIsUpToDateForOnDelete(t *testing.T) {
	for kind, done := range map[rollout.Type]bool{rollout.OnDelete: true, rollout.RollingUpdate: false} {
		f := rollout.Facts{
			Desired: contract.Some(3), Strategy: rollout.Strategy{Type: kind, MaxUnavailable: 1},
			Sets: []rollout.Set{setWith("new", "a b"), setWith("other", "x"), setWith("zero", "")},
		}
		f.Sets[0].Matches, f.Sets[1].Matches = true, true
		d := rollout.Plan(f)
		require.Equal(t, done, d.Complete, "%s: %+v", kind, d)
		require.Equal(t, done, len(d.Replicas) == 0 && len(d.Blocked) == 0)
		f.Desired = contract.Some(4)
		d = rollout.Plan(f)
		require.Equal(t, "new", d.Replicas[len(d.Replicas)-1].Set)
	}
}
