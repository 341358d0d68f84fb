// Package healthcheck decides which Machines are unhealthy, and how many of them may be replaced at once. It makes no request and reads no
// clock: package machine/remediation observes, and carries the decisions out.
//
// # One Machine
//
// [Evaluate] judges one Machine from [Facts]. The [Verdict] has one of three classes: [Healthy], [Unhealthy], or [Pending] for a Machine
// that is not judged, or not yet. It says why, since when, and when it changes without an event. Conditions of the Node count, those of
// node-problem-detector too, conditions of the Machine, a Node that does not register in time or was deleted, a creation that failed, and
// annotations. The texts are Cluster API's. What was not read never makes a Machine unhealthy, and while an API server that it depends on
// is silent ([Reach]) it is not judged. A Node with the recorded UID is the
// Machine's, and its conditions decide, also where the Machine's provider ID has another form.
//
// # All Machines of a check
//
// [Plan] decides about all Machines of one MachineHealthCheck: whether the limit of the check allows remediation at all, and which
// Machines are marked. An [Outcome] says of each unhealthy Machine what happens to it, or why nothing does. Beside the limit:
//
//   - when all Machines become unhealthy at once, or most of a failure domain, that is an outage, and none of them is marked. Machines
//     whose timeout is not reached yet count too, so that an outage is known before its first Machine is marked. An outage ends when it is
//     none any more, and all its Machines can be judged. The timeouts of the Machines that have not recovered then begin anew. A Machine
//     whose remediation a person requests is not part of an outage, and one Machine alone is no outage;
//   - a remediation in flight counts against the limit until the replacement is healthy: a deleted Machine counts as one that is unhealthy,
//     for an hour if nothing takes its place, as after a scale-down.
//
// A scale-up does not count: Machines that have not started are pending, unless they replace one.
//
// The [Ledger] is what must be remembered for this. It is stored before Machines are marked; when it was lost, each Machine that has not
// started counts as a replacement. A Machine takes the place of another one if it was made after the newest one that was there when that
// one was marked, by the clock of the API server, which gives Machines their times: clocks of processes differ.
package healthcheck
