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
//   - Step never waits for a pod, an eviction or an informer. It makes at most one API call: the cordon patch, or, where
//     the policy asks for it, the patch of the out-of-service taint.
//   - Every eviction and deletion carries the UID of the pod that was planned; a pod re-created under the same name is not touched.
//   - Done is said only when the passed Node is cordoned, the pods are completely known and none of them blocks; the one
//     exception is a Node whose instance, so the caller says, is gone.
//   - Without a Deleter and a policy that asks for it nothing is deleted, and no taint is set.
//   - No more evictions of one budget are under way, over all Nodes, than its status allows, and at most four at once. Beyond that
//     go probes, because the server has the last word: one pod of a closed budget every Config.ProbeInterval.
//   - A pod that its budgets can never let go ([drain.ReasonBudgetNeverAllows], [drain.ReasonMultipleBudgets]) is asked for once,
//     and again 1 min after a refusal, doubled up to 5 min, at most four at once behind one budget. Webhooks act on the request:
//     KubeVirt migrates the virtual machine, Strimzi's drain cleaner has the pod rolled. The pod is reported as before meanwhile.
//   - Requests go out in turn over Nodes, at most 64 at once and 32 per Node. A throttled answer halves the number and
//     makes everybody pause, for a minute at most; each success wins one back. Refused credentials stop everybody and are an
//     error of every Step.
//   - What a webhook or an admission policy denies is about one pod, whatever its status code. That pod rests for 15 s, then
//     longer, up to 5 min; no other pod waits for it.
//   - Goroutines exist per request under way, not per pod, and end with the context.
//   - A server that cannot be asked how to watch budgets or volumes is asked again, up to 30 s later, and Step or StepVolumes says so.
//     Drain, for which somebody waits, fails at once.
//   - StepVolumes sends no request, and says Done only when the VolumeAttachments are completely known.
//   - Events are recorded on the Node, and only when something is new; a new process begins anew. No metric names an object.
//   - The attempt table is a cache: losing it with the process costs at most one more request per pod.
//   - The settle time counts from the first Step that was shown the cordon. A new process waits it out once more.
//
// # Limits
//
// One Runner serves one cluster and one set of owners. Who drained a Node calls [Runner.Release], or its watch stays.
//
// There is no limit of requests per second unless Config.QPS sets one: what is under way is bounded, and a fixed rate would
// slow big drains down that the server has room for. Deletions take no token of a budget; they ignore budgets by their
// nature, and the budget's status shows them soon after.
//
// A Request without StartedAt counts its stages from the first Step of the process, so a restart starts them anew.
//
// Pods of a controller that creates them again on the cordoned Node rest from 5 s to 5 min before each further request, and
// are reported with [drain.ReasonRespawned]. What was evicted before a restart is forgotten for this.
//
// The out-of-service taint is taken away again, when this package has put it there, by a Step that is shown the Node Ready
// and by [Runner.Cancel] with uncordon. An annotation on the Node, [OutOfServiceAnnotation], remembers whose it is. A Node
// that comes back while nobody steps it keeps the taint.
//
// # Without a manager
//
// [Drain] runs a Runner for some Nodes and returns when they are drained or the time is used up; [Standalone] makes what it
// needs from a rest.Config. [Runner.Wait] does the same for one Node of a Runner that runs already.
package runner
