package safety_test

import (
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// A script has created Machines for a set that wants three.
func ExampleEvaluate() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	set := safety.Set{Desired: contract.Some(3), Now: now}
	for range 9 {
		set.Machines = append(set.Machines, safety.Member{Created: now})
	}
	verdict := safety.Evaluate(set)
	fmt.Println(verdict.Action == safety.Freeze, verdict.Reason)
	fmt.Println(verdict.Message)
	// Output:
	// true OverShootingReplicaCount
	// There are 9 Machines, and the set may have fewer than 8: it creates none until there are at most 7
}

// An instance of which no Machine is left is reported, and deleted only after several passes.
func ExamplePlanOrphans() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	facts := safety.OrphanFacts{
		Instances: []safety.Instance{
			{Cluster: "demo", Token: "1", ProviderID: "cloud://1"}, {Cluster: "demo", Token: "2", ProviderID: "cloud://2"},
		},
		Owners:  []safety.Owner{{UID: "1", Cluster: "demo", Name: "m1"}},
		Started: now.Add(-time.Hour),
	}
	for at := now; ; at = at.Add(15 * time.Minute) {
		facts.Now = at
		plan := safety.PlanOrphans(facts)
		facts.Seen = plan.Seen
		if len(plan.Delete) > 0 {
			fmt.Println(at.Sub(now), "delete", plan.Delete[0].ProviderID)
			break
		}
		fmt.Println(at.Sub(now), plan.Orphans[0].Instance.ProviderID, plan.Orphans[0].Waits)
	}
	// Output:
	// 0s cloud://2 1 of 3 confirmations
	// 15m0s cloud://2 2 of 3 confirmations
	// 30m0s delete cloud://2
}
