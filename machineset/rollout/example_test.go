package rollout_test

import (
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Three Machines are replaced with a surge of one. After every plan, Machines that are to go are gone, and new ones are available.
func ExamplePlan() {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	created := 0
	grow := func(s *rollout.Set) {
		for len(s.Machines) < s.Replicas {
			created++
			name := fmt.Sprintf("m%d", created)
			s.Machines = append(s.Machines, rollout.Machine{Machine: scale.Machine{Name: name, Available: true, Ready: true}})
		}
	}
	sets := []rollout.Set{{Name: "ms1", Created: start, Replicas: 3}, {Name: "ms2", Created: start.Add(time.Hour), Matches: true}}
	for {
		grow(&sets[0])
		grow(&sets[1])
		d := rollout.Plan(rollout.Facts{
			Desired: contract.Some(3), Sets: sets, Strategy: rollout.Strategy{Type: rollout.RollingUpdate, MaxSurge: 1},
		})
		if d.Complete {
			fmt.Println("complete, revision", d.Revision)
			return
		}
		for _, c := range d.Replicas {
			fmt.Printf("%s %d->%d", c.Set, c.From, c.To)
			for i := range sets {
				if sets[i].Name == c.Set {
					sets[i].Replicas = c.To
				}
			}
			for _, v := range c.Victims {
				fmt.Printf(" without %s", v.Name)
				sets[0].Machines = sets[0].Machines[1:]
			}
			fmt.Println()
		}
	}
	// Output:
	// ms2 0->1
	// ms1 3->2 without m1
	// ms2 1->2
	// ms1 2->1 without m2
	// ms2 2->3
	// ms1 1->0 without m3
	// complete, revision 1
}
