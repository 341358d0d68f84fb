// Package runner carries drain plans out against an API server without blocking a reconcile worker.
//
// A reconciler calls [Runner.Step] in every pass. Step cordons the Node, reads its Pods from a [PodSource], makes a plan with package
// drain, queues what may go now, and reports. [Runner.Start] sends what is queued; a manager runs it only while it is the leader.
// A program with a schedule of its own calls [Runner.SendNext] instead. [Runner.Source] wakes the reconciler when the state changes. After
// the drain, [Runner.StepVolumes] reports in the same way whether volumes are still attached. [Metrics] inform people.
//
// # Guarantees
//
//   - Step does not wait for a Pod, an eviction or an informer. It sends at most one request: the cordon patch.
//   - Every eviction and deletion carries the UID of the planned Pod. A Pod that was created again under the same name is not affected.
//   - A drain is Done only when the passed Node is cordoned, its Pods are completely known and none of them blocks.
//   - Without a Deleter and a policy that asks for it, no Pod is deleted.
//   - No more evictions of one budget are in flight, over all Nodes, than its status allows, and at most four. Probes are sent in addition,
//     because the API server decides: one Pod of a closed budget every 15 s.
//   - A Pod that its budgets can never let go ([drain.ReasonBudgetNeverAllows], [drain.ReasonMultipleBudgets]) is requested once, and again
//     1 min after a refusal, doubled up to 5 min, at most four at a time for one budget. Webhooks act on the request: KubeVirt migrates the
//     virtual machine, Strimzi's drain cleaner restarts the Pod. Meanwhile the Pod is reported as before.
//   - Nodes take turns. At most 64 requests are in flight, and 32 per Node. An answer that throttles halves the number and delays all
//     requests, for a minute at most; each success increases the number by one. Refused credentials stop all requests, and every Step
//     returns the error.
//   - A denial by a webhook or an admission policy concerns one Pod, whatever its status code. That Pod rests for 15 s, then longer, up to
//     5 min; other Pods do not wait for it.
//   - There is one goroutine per request in flight, not per Pod. Goroutines end with the context.
//   - If budgets or volumes cannot be watched, the Runner tries again at intervals of up to 30 s, and Step or StepVolumes returns the
//     error. [Drain] returns it immediately.
//   - StepVolumes sends no request. It is Done only when the VolumeAttachments are completely known.
//   - No label of a metric names an object.
//   - The attempts are a cache: if the process ends, at most one more request per Pod is sent.
//   - A drain is done Config.Settle after the first Step that was shown the cordon, at the earliest, and only by a list of the Pods that is
//     made after that: a watch may be behind, because the process was stopped, or its connection. A new process does both again.
//
// # Limits
//
// One Runner serves one cluster and one set of owners. After the drain of a Node, call [Runner.Release]; otherwise its watch stays open.
//
// The number of requests per second is not limited: the requests in flight are, and a fixed rate would slow large drains down that the API
// server can serve. Deletions take no token of a budget, because they ignore budgets; the status of the budget
// shows them soon after.
//
// The times of the policy of a Request without StartedAt count from the first Step of the process, so they start again after a restart.
//
// Pods that their controller creates again on the cordoned Node rest from 5 s to 5 min before each further request, and are reported with
// [drain.ReasonRespawned]. A new process does not know which Pods were evicted before.
//
// # Without a manager
//
// [Drain] runs a Runner for some Nodes and returns when they are drained or the time is used up; [Standalone] makes what it needs from a
// rest.Config.
package runner
