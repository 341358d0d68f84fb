// Command quickstart shows Machines from creation to deletion without a cluster: it runs the reconcilers of Machines, MachineSets and
// MachineDeployments in a real controller-runtime manager over an in-memory store, with a fake infrastructure and a fake bootstrap
// provider.
//
//	go run ./examples/quickstart
//
// A MachineDeployment starts three Machines. A Deployment with a PodDisruptionBudget runs on their Nodes. One Machine is deleted: its
// drain waits for the budget and finishes, the Machine's objects are removed, and its set creates another one. Then the MachineDeployment
// replaces its Machines by ones of another version, one at a time, and waits for the budget as well. The budget allows an eviction when
// replacement pods are ready on other Nodes, or never (try -budget-min-available 99). The program looks at the pods 20 times a second, and
// fails if fewer are ready than the budget demands.
//
// Read the files in this order: main.go (flags), world.go (the parts and how they are connected: this is what an operator does),
// objects.go (what a user creates), story.go (the steps), picture.go (the observed state), timeline.go (the drawing).
package main
