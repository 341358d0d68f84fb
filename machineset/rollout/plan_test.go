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
	shrinks := rollout.Decision{Replicas: []rollout.Change{{UID: "old", From: 3, To: 2}}}
	grows := rollout.Decision{Replicas: []rollout.Change{{UID: "new", From: 1, To: 2}}}
	creates := rollout.Decision{Create: contract.Some(0)}
	for name, test := range map[string]struct {
		machines int
		deleting bool
		decision rollout.Decision
		want     []string
	}{
		"it shrinks":                             {machines: 2, decision: shrinks, want: []string{"old"}},
		"it shrinks and shows all":               {machines: 3, decision: shrinks},
		"another one grows":                      {machines: 2, decision: grows},
		"another one grows during its deletion":  {machines: 2, deleting: true, decision: grows, want: []string{"old"}},
		"another one is made in its deletion":    {machines: 2, deleting: true, decision: creates, want: []string{"old"}},
		"it shows all in its deletion":           {machines: 3, deleting: true, decision: grows},
		"nothing changes":                        {machines: 2},
		"nothing but its deletion changes a set": {machines: 2, deleting: true},
	} {
		sets := []rollout.Set{
			{Name: "old", UID: "old", Replicas: 3, Deleting: test.deleting, Machines: make([]rollout.Machine, test.machines)},
			{Name: "new", UID: "new", Replicas: 1, Machines: make([]rollout.Machine, 1)},
		}
		var got []string
		for _, s := range rollout.Lacking(sets, test.decision) {
			got = append(got, s.Name)
		}
		require.Equal(t, test.want, got, name)
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
