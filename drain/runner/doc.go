// Package runner carries drain plans out against an API server without ever blocking a reconcile worker.
//
// A reconciler calls [Runner.Step] in every pass. Step cordons the Node, looks at its pods in a [PodSource], makes a plan
// with package drain, queues what may go now and reports. The queue is worked off by [Runner.Start], which a manager
// runs only while it leads. [Runner.Source] wakes the reconciler when there is something new to see. After the drain,
// [Runner.StepVolumes] says in the same way whether volumes are still attached. [Result.Condition], Config.Events and
// [Metrics] tell people about it.
//
// # Guarantees
//
//   - Step never waits for a pod, an eviction or an informer. It makes at most one API call, the cordon patch.
//   - Every eviction carries the UID of the pod that was planned; a pod re-created under the same name is not touched.
//   - Done is said only when the passed Node is cordoned, the pods are completely known and none of them blocks.
//   - No more evictions of one budget are under way, over all Nodes, than its status allows, and at most four at once.
//   - Requests go out in turn over Nodes. Goroutines exist per request under way, not per pod, and end with the context.
//   - StepVolumes sends no request, and says Done only when the VolumeAttachments are completely known.
//   - Events are recorded on the Node, and only when something is new; a new process begins anew. No metric names an object.
//   - The attempt table is a cache: losing it with the process costs at most one more request per pod.
//
// # Limits
//
// Evict is the only action carried out yet: a rule that says Delete gets a blocker with [drain.ReasonUnsupported].
// One Runner serves one cluster and one set of owners. Who drained a Node calls [Runner.Release], or its watch stays.
package runner
