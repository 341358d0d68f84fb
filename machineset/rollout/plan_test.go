package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func TestASetLacksMachinesWhereADecisionCountsOnTheOnesThatItDoesNotShow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		machines, current, desired int
		deleting                   bool
		creates                    bool // the current set has yet to be made
		want                       []types.UID
	}{
		"it shrinks":                            {machines: 2, current: 1, desired: 3, want: []types.UID{"old"}},
		"it shrinks and shows all":              {machines: 3, current: 1, desired: 3},
		"another one grows":                     {machines: 3, current: 1, desired: 9},
		"another one grows during its deletion": {machines: 2, current: 1, desired: 5, deleting: true, want: []types.UID{"old"}},
		"another one is made in its deletion":   {machines: 2, desired: 3, deleting: true, creates: true, want: []types.UID{"old"}},
		"it shows all in its deletion":          {machines: 3, current: 1, desired: 9, deleting: true},
	} {
		old, current := setWith("old", "a b c"), setWith("new", "n")
		old.Machines, old.Deleting = old.Machines[:test.machines], test.deleting
		current.Matches = true
		f := rollout.Facts{Desired: contract.Some(test.desired), Sets: []rollout.Set{old, current}, Strategy: rollout.Strategy{MaxSurge: 1}}
		if test.creates {
			f.Sets = f.Sets[:1]
		}
		d := rollout.Plan(f)
		require.True(t, d.Create.Found() || len(d.Replicas) > 0, name)
		require.Equal(t, test.want, d.Lacking, name)
	}
}

func BenchmarkPlan10000(b *testing.B) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	sets := []rollout.Set{{Name: "ms1", Created: start}, {Name: "ms2", Created: start.Add(time.Hour), Matches: true}}
	for i := range 10000 {
		s := &sets[i/7000]
		name := fmt.Sprintf("m%05d", (i*7919)%10000)
		s.Machines = append(s.Machines, rollout.Machine{Machine: scale.Machine{Name: name, UID: types.UID(name),
			Created: start.Add(time.Duration(i%100) * time.Second), Available: i%50 != 0, Ready: i%50 != 0, Marked: i%1000 == 0}})
		s.Replicas++
	}
	f := rollout.Facts{Desired: contract.Some(9500), Sets: sets,
		Strategy: rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: 1000, MaxUnavailable: 1000}}
	b.ReportAllocs()
	for b.Loop() {
		if d := rollout.Plan(f); len(d.Replicas) == 0 {
			b.Fatal("nothing is planned")
		}
	}
}
