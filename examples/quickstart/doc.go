// Command quickstart shows the life of Machines without a cluster: it runs the Machine reconciler in a real controller-runtime
// manager over an in-memory store, with a fake infrastructure and a fake bootstrap provider.
//
//	go run ./examples/quickstart
//
// Three Machines come up, a Deployment behind a PodDisruptionBudget runs on their Nodes, one Machine is deleted: its drain
// waits for the budget, finishes, and everything of the Machine goes. Nothing here writes the budget's status or waits a
// fixed time to make it open: it opens when replacement pods are ready on other Nodes, or not at all (try
// -budget-min-available 99). The program watches the pods itself and fails if ever fewer are ready than the budget demands.
//
// Read the files in this order: main.go (flags), script.go (what the seed decides), world.go (the parts and how they are
// joined: this is what an operator does), story.go (the acts), picture.go (what is known of the world), view.go and table.go
// (how it is shown), summary.go.
package main
