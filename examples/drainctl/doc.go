// Command drainctl shows what draining Nodes would do, and drains them, with any kubeconfig:
//
//	go run ./examples/drainctl plan worker-1
//	go run ./examples/drainctl run worker-1
//
// It does what kubectl drain does, with these differences: before the first eviction it counts disruption budgets over all Nodes, and names
// the Pods that cannot leave without a change and the change that is needed; it does not evict a Pod of the same name on another Node; it
// evicts as soon as a budget allows it instead of every five seconds; and after Ctrl-C it prints the state, which the same command resumes.
//
// Read the files in this order: main.go and options.go (flags), rules.go (what flags mean for package drain), cluster.go
// (what is read), plan.go (the plan), run.go (package drain/runner carries it out, and what is printed meanwhile and at the end). The
// rights that it needs are those of runner.PolicyRules without volumes, and to get and list Nodes.
package main
