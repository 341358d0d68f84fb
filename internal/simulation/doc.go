// Package simulation runs the reconcilers of this library through histories that nothing but a seed decides, in one goroutine and in
// virtual time.
//
//	report, err := simulation.RunSeeds(ctx, simulation.Seeds{Count: 1000, Progress: os.Stderr})
//	for seed := range report.Failed {
//		fmt.Print(simulation.Shrunk(ctx, seed, simulation.Options{}, 300).Table())
//	}
//
// # The World
//
// A World has a fake.Store as the API server, a cloud (fake.Driver), kubelets, and two managers with caches that are behind by some events,
// kind by kind. It has up to four owners of equal names in two namespaces: MachineDeployments of every strategy with numbers or
// percentages, MachineSets, a MachinePool with or without Machines, a Machine by itself. The Nodes of the second namespace may be in a
// workload cluster of their own. A history may also have Pods with a budget and drain runners; health checks with limits, zones, a freezer
// and gates; templates from which sets clone, with or without providers of what they clone, by an actor or by package inframachine; a cloud
// with bad habits, one or two accounts and Collectors. In half of the histories sets give their Machines no finalizer, and half begin when
// everything runs.
//
// # What happens
//
// Each history has a part of AllFaults; the comment of each Fault has what it is. Users scale, roll out and back, pause, delete, edit, take
// things away, restore backups, also into another namespace; cluster-autoscaler and GitOps write; webhooks refuse, rewrite, strip and
// prune; other controllers undo what managers do, or add finalizers. Requests are lost, refused, late or carried out without an answer;
// caches list again, stall or leave objects out; managers crash before or after any request, two lead at once, clocks are wrong and jump;
// workload clusters are away, or a kubeconfig leads to another one; kubelets and zones die and come back; calls to the cloud fail with any
// class. Between any two requests of a pass something else may happen.
//
// Reconcilers are added to a manager that starts the event sources of their controllers: what no event of the cache wakes, and no
// RequeueAfter, is not reconciled.
//
// # What must hold
//
// After each write the Invariants hold. Then the faults stop: what people and other programs have broken by hand they put right, and they
// do what conditions require; everything desired is reached within Bound; what conditions, counters, metrics and events have is true (the
// sentences that begin with "truth"); then no reconciler makes a request for an hour, one more request is fulfilled, and after a deletion
// nothing is left: no object, Node, instance or annotation.
//
// The same seed gives the same history, line by line, on every machine. A broken invariant is a BrokenError with its History; Shrunk finds
// one with fewer faults that breaks the same invariant. Report.Print prints how often each fault, trait, result of a step and reason of a
// condition was seen. What never occurs in "make simulate", also of the blocks of pure packages with COVER=file, is listed with the reason
// in testdata/never.txt, and testdata/defects has the planted defects with the histories or the unit test that find them.
//
// # Limits
//
// There are no volumes, drain rules or Cluster objects in the World, and no Pods in the second workload cluster. Package inframachine meets
// a cloud without habits. Health checks use owners only. A missing event source is not found where polling has the same effect. The API
// server is away for managers alone, whose caches get events all the same. A Node that joins while the cache of the manager that ends its
// Machine has yet to show it is left to the cloud controller manager, as in a real cluster.
package simulation
