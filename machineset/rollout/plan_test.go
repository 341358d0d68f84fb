package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

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
