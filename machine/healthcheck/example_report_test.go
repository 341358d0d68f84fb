package healthcheck_test

import (
	"encoding/json"
	"fmt"
	"time"

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
	byAction := map[healthcheck.Action][]string{}
	for _, o := range healthcheck.Plan(healthcheck.PlanFacts{Machines: machines, Known: true, Now: now}).Outcomes {
		byAction[o.Action] = append(byAction[o.Action], o.Name)
	}
	fmt.Println(nodeState(false, false) == healthcheck.NodeGone, classes[healthcheck.Unhealthy], unstarted)
	fmt.Println(byAction[healthcheck.ActionMark])
	// Output:
	// false 1 1
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
