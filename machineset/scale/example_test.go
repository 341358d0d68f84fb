package scale_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Decide what a set does next.
func ExamplePlan() {
	machines := []scale.Machine{
		{Name: "old", UID: "1", Created: time.Unix(100, 0), Ready: true, Available: true},
		{Name: "young", UID: "2", Created: time.Unix(200, 0), Ready: true, Available: true},
		{Name: "marked", UID: "3", Created: time.Unix(300, 0), Marked: true, Ready: true},
	}
	for _, desired := range []int{5, 3, 1} {
		d := scale.Plan(scale.Facts{Desired: contract.Some(desired), Machines: machines, Order: scale.Oldest})
		fmt.Printf("%d wanted: create %d, delete %v\n", desired, d.Create, d.Delete)
	}
	// Output:
	// 5 wanted: create 2, delete []
	// 3 wanted: create 0, delete []
	// 1 wanted: create 0, delete [{marked 3} {old 1}]
}

// Take names before anything is created, and forget them when it is.
func ExampleLedger() {
	naming, err := scale.NewNaming("5d1c", "workers", "demo", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	ledger, entries := scale.NewLedger().Reserve(2, naming, nil)
	fmt.Println(strings.Count(ledger.String(), "workers-"), "names are taken") // written with the resource version that was read
	created := map[string]bool{}
	for _, e := range entries { // then created, each with its Stamp
		created[e.Name] = true
	}
	fmt.Println(ledger.Settle(created))
	// Output:
	// 2 names are taken
	// {"uid":"5d1c","next":3}
}

// Of two Machines that a health check has marked, the newest one goes, and the other one waits.
func ExampleRemediate() {
	marked := func(name string, slot int64) scale.Machine {
		return scale.Machine{Name: name, Slot: slot, Ailing: true, Created: time.Unix(slot, 0)}
	}
	show := func(decision scale.Remediation) {
		fmt.Println("delete", decision.Delete[0].Name)
		fmt.Println(decision.Deferred[0].Name, decision.Deferred[0].Reason)
		fmt.Println(scale.Ledger{Set: "set-uid", Next: 3, Replaced: decision.Replacements})
	}
	show(scale.Remediate(scale.RemediationFacts{
		Machines: []scale.Machine{marked("workers-a", 1), marked("workers-b", 2)}, Next: 3, Now: time.Unix(100, 0).UTC(),
		Limits: scale.RemediationLimits{MaxInFlight: new(1)},
	}))
	// Output:
	// delete workers-b
	// workers-a RemediationDeferred
	// {"uid":"set-uid","next":3,"replaced":{"names":["workers-b"],"from":3,"count":1,"last":100}}
}

// A script has created Machines for a set that wants three.
func ExampleOvershoot() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	set := scale.FreezeFacts{Desired: contract.Some(3), Now: now}
	for range 9 {
		set.Machines = append(set.Machines, scale.Machine{Created: now})
	}
	verdict := scale.Overshoot(set)
	words := map[scale.FreezeAction]string{scale.Keep: "leave it", scale.Freeze: "freeze it", scale.Thaw: "thaw it"}
	fmt.Println(words[verdict.Action], verdict.Reason)
	fmt.Println(verdict.Message)
	// Output:
	// freeze it OverShootingReplicaCount
	// There are 9 Machines, and the set may have fewer than 8: it creates none until there are at most 7
}
