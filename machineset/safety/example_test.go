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
	words := map[safety.Action]string{safety.Keep: "leave it", safety.Freeze: "freeze it", safety.Thaw: "thaw it"}
	fmt.Println(words[verdict.Action], verdict.Reason)
	fmt.Println(verdict.Message)
	// Output:
	// freeze it OverShootingReplicaCount
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
	report := func(plan safety.OrphanPlan) (done bool) {
		if len(plan.Delete) > 0 {
			fmt.Println(facts.Now.Sub(now), "delete", plan.Delete[0].ProviderID)
			return true
		}
		fmt.Println(facts.Now.Sub(now), plan.Orphans[0].Instance.ProviderID, plan.Orphans[0].Waits)
		return false
	}
	for facts.Now = now; ; facts.Now = facts.Now.Add(15 * time.Minute) {
		plan := safety.PlanOrphans(facts)
		if facts.Seen = plan.Seen; report(plan) {
			break
		}
	}
	// Output:
	// 0s cloud://2 1 of 3 confirmations
	// 15m0s cloud://2 2 of 3 confirmations
	// 30m0s delete cloud://2
}
