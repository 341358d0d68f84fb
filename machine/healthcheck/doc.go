// Package healthcheck decides which Machines are unhealthy, and how many of them may be replaced at once. It makes no request and reads no
// clock: package machine/remediation reads the facts and carries out the decisions.
//
// # One Machine
//
// [Evaluate] judges one Machine from [Facts]. The [Verdict] has one of three classes: [Healthy], [Unhealthy], or [Pending] for a Machine
// that is not judged, or not yet. It has the reason, its start, and the time of a change without an event. The inputs are conditions of the
// Node, including those of node-problem-detector, conditions of the Machine, a Node that does not register in time or was deleted, a failed
// creation, and annotations. The texts are Cluster API's. Facts that were not read never make a Machine unhealthy, and a Machine is not
// judged while an API server that it depends on does not respond ([Reach]). A Node with the recorded UID is the Machine's, even if the
// Machine's provider ID has another form.
//
// # All Machines of a check
//
// [Plan] decides about all Machines of one MachineHealthCheck: whether the limit of the check allows remediation at all, and which Machines
// are marked. An [Outcome] has the action for each unhealthy Machine, or the reason for none. In addition to the limit:
//
//   - when all Machines, or most of a failure domain, become unhealthy at once, that is an outage, and none of them is marked. Machines
//     whose timeout is not reached yet count too, so that an outage is detected before its first Machine is marked. An outage ends when it
//     is no longer detected and all its Machines can be judged. The timeouts of Machines that have not recovered then begin anew. A Machine
//     whose remediation a person requests is not part of an outage, and one Machine alone is not an outage;
//   - a remediation in progress counts against the limit until the replacement is healthy: a deleted Machine counts as unhealthy, for an
//     hour if nothing replaces it, as after a scale-down.
//
// A scale-up does not count: Machines that have not started are pending, unless they replace one.
//
// The [Ledger] is the state that this needs. It is stored before Machines are marked; if it was lost, each Machine that has not started
// counts as a replacement. A Machine replaces another one if it was created after the newest Machine that existed when the other one was
// marked. Only creation times from the API server are compared, because clocks of processes differ.
package healthcheck
