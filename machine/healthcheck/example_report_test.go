package healthcheck_test

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

// A program of your own judges by the same rules: it says what it knows of Nodes, and shows what would be done.
func ExampleVerdict() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	nodeState := func(read, exists bool) healthcheck.NodeState {
		switch {
		case !read:
			return healthcheck.NodeUnread
		case exists:
			return healthcheck.NodePresent
		}
		return healthcheck.NodeGone
	}
	classes, unstarted := map[healthcheck.Class]int{}, 0
	machines := []healthcheck.Machine{
		{Name: "a", UID: "1", Group: "workers", Verdict: healthcheck.Verdict{Class: healthcheck.Healthy}},
		{Name: "b", UID: "2", Group: "workers", Verdict: healthcheck.Verdict{Class: healthcheck.Unhealthy, Since: now.Add(-3 * time.Hour)}},
		{Name: "c", UID: "3", Group: "workers", Verdict: healthcheck.Verdict{Unstarted: true}},
	}
	for _, m := range machines {
		classes[m.Verdict.Class]++
		if m.Verdict.Unstarted {
			unstarted++
		}
	}
	byAction := func(limit healthcheck.Limit) map[healthcheck.Action][]string {
		names := map[healthcheck.Action][]string{}
		for _, o := range healthcheck.Plan(healthcheck.PlanFacts{Machines: machines, Limit: limit, Known: true, Now: now}).Outcomes {
			names[o.Action] = append(names[o.Action], o.Name)
		}
		return names
	}
	unlimited, err := healthcheck.ParseLimit(contract.Opt[intstr.IntOrString]{}, "")
	fmt.Println(nodeState(false, false) == healthcheck.NodeGone, classes[healthcheck.Unhealthy], unstarted, err)
	fmt.Println(byAction(unlimited)[healthcheck.ActionMark])
	// Output:
	// false 1 1 <nil>
	// [b]
}

// The annotation of a check shows which outages last.
func ExampleLedger() {
	var ledger healthcheck.Ledger
	stored := `{"check": "uid", "successors": ["m-2"], "outages": {"zone-a": 0, "zone-b": 1772366400}}`
	if err := json.Unmarshal([]byte(stored), &ledger); err != nil {
		fmt.Println(err)
	}
	for domain, ended := range ledger.Outages {
		if ended == 0 {
			fmt.Println(ledger.Successors, domain)
		}
	}
	// Output:
	// [m-2] zone-a
}
