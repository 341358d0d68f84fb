// Package runner executes drain plans against an API server without blocking a reconcile worker.
//
// A program drains Nodes in one call:
//
//	results, err := runner.Drain(ctx, restConfig, runner.DrainOptions{Timeout: 10 * time.Minute}, "node-1", "node-2")
//
// An operator has one line in main, and calls Step in every pass of its reconciler; [Runner.Source] triggers passes:
//
//	drains, err := runner.AddToManager(mgr)
//	result, err := drains.Step(ctx, runner.Request{Node: node})
//
// Step cordons the Node, reads its Pods, makes a plan with package drain, queues requests, and reports the state. [Runner.Start] sends
// queued requests; a manager runs it only while it is the leader. After the drain, [Runner.StepVolumes] reports in the same way whether
// volumes are still attached. [Look] reads the input for a plan before a drain. [Metrics] count requests.
//
// # Guarantees
//
//   - Step does not wait for a Pod, an eviction or an informer. It sends at most one request: the cordon patch.
//   - Every eviction and deletion carries the UID of the planned Pod. A Pod that was created again under the same name is not affected.
//   - A drain is Done only when all Pods of the Node are known, none of them blocks, and the Node is cordoned. Config.Settle must have
//     passed since the first Step that saw the cordon and since the last new Pod, and a later list of the Pods must confirm the result: a
//     watch may be behind. A new process does both again.
//   - A Node that others make schedulable again is cordoned again, and a blocker reports that. After five times in a row, cordons become
//     rarer, up to one a minute, and the drain ends without the cordon when no Pod is left.
//   - No Pod is deleted unless a rule or a policy requires it.
//   - No more evictions of one budget are in flight, over all Nodes, than its status allows. In addition, one Pod of a closed budget
//     is requested every 15 s, because the API server decides.
//   - A Pod whose budgets can never allow its eviction is requested once, and again a minute after a refusal, doubled up to 5 min. Webhooks
//     act on the request: KubeVirt migrates the virtual machine, Strimzi's drain cleaner restarts the Pod. Meanwhile the Pod is reported as
//     before.
//   - Nodes take turns. At most 64 requests are in flight. A throttling response and rejected credentials delay all requests, for a minute
//     at most. Any other refusal delays only one Pod; [drain.Rest] is the schedule.
//   - There is one goroutine per request in flight, not per Pod. Goroutines end with the context.
//   - StepVolumes sends no request. It is Done only when all VolumeAttachments are known.
//   - No label of a metric names an object.
//
// # Limits
//
// One Runner serves one cluster and one set of owners. After the drain of a Node, call [Runner.Release]; otherwise its watch stays open.
// Attempts are in memory only: if the process ends, at most one more request per Pod is sent.
//
// The number of requests per second is not limited, only the number in flight: a fixed rate would slow down large drains that the API
// server can serve. Deletions take no token of a budget, because they ignore budgets; the status of the budget shows them soon after.
//
// For a Request without StartedAt, the times of the policy count from the first Step of the process. Pods that their controller creates
// again on the cordoned Node rest before each further request, and are reported with [drain.ReasonRespawned]; a new process has no record
// of earlier evictions.
package runner
