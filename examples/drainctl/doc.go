// Command drainctl shows what draining Nodes would do, drains them, and gives them back, with any kubeconfig:
//
//	go run ./examples/drainctl plan worker-1
//	go run ./examples/drainctl run worker-1
//	go run ./examples/drainctl uncordon worker-1
//
// It does what kubectl drain does, with these differences: it counts disruption budgets over all Nodes before it asks for the
// first eviction, and says what will never go by itself and what opens the way; it never evicts a pod of the same name on
// another Node; it evicts as soon as a budget opens instead of asking every five seconds; and Ctrl-C leaves a state that it
// names and that the same command resumes.
//
// Read the files in this order: main.go and options.go (flags), rules.go (what flags mean for package drain), cluster.go
// (what is read), plan.go and table.go (the plan, as JSON and as text), run.go (package drain/runner carries it out),
// follow.go and view.go and live.go (how it is shown), ending.go (what is said at the end), rights.go (RBAC).
package main
