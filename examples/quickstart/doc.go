// Command quickstart shows Machines from creation to deletion without a cluster: it runs the reconcilers of Machines, MachineSets and
// MachineDeployments in a real controller-runtime manager over an in-memory store, with a fake infrastructure and a fake bootstrap
// provider.
//
//	go run ./examples/quickstart
//
// Three Machines start, and a MachineDeployment of two more. A Deployment with a PodDisruptionBudget runs on their Nodes. One Machine is
// deleted: its drain waits for the budget and finishes, and the Machine's objects are removed. Then the MachineDeployment replaces its
// Machines by ones of another version, one at a time, and waits for the budget as well. The program does not write the budget's status or
// wait a fixed time: the budget allows an eviction when replacement pods are ready on other Nodes, or never (try -budget-min-available 99).
// The program watches the pods itself and fails if at any time fewer are ready than the budget demands.
//
// Read the files in this order: main.go (flags), script.go (values from the seed), world.go (the parts and how they are
// connected: this is what an operator does), story.go and rollout.go (the steps), picture.go (the observed state), view.go and
// table.go (the output), summary.go, timeline.go (the drawing).
package main
