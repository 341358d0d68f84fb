// Package remediation reconciles MachineHealthChecks: it judges Machines, and requests the remediation of those that are unhealthy.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager, with the kinds of checks and Machines. Cluster API's MachineHealthChecks work as
// they are, in both of its versions. The access to Nodes is that of the reconciler of Machines:
//
//	kinds, err := contract.ClusterAPI(contract.V1Beta2)
//	nodes, err := cluster.WorkloadOptions{}.FromManager(ctx, mgr)
//	_, err = remediation.SetupWithManager(ctx, mgr, kinds, nodes, remediation.Options{})
//
// For Clusters, and for Nodes in workload clusters, fill [Ports] and call [New]. Package machine/healthcheck makes all decisions;
// [Options].Checks replaces the rules that make a Machine unhealthy.
//
// # What it writes
//
// On Machines, in one write of the status: HealthCheckSucceeded, True for a Machine with a Node and no problem; and OwnerRemediated, False
// with the reason WaitingForRemediation, on a Machine that is to be remediated. The owner, a set, a pool or a control plane, acts on that.
// If a check references a template, an object with the Machine's name is created from it instead; ExternallyRemediated reports its
// progress, and it is deleted when the Machine is healthy again. An object of that name that the Machine does not own, by UID, is not
// changed.
//
// On the check: expectedMachines, currentHealthy, remediationsAllowed, the sorted targets, and RemediationAllowed with the reason why
// nothing happens. The ledger of package machine/healthcheck is an annotation, written before a Machine is marked. Events report changes
// only.
//
// # What it does not do
//
// It does not replace Machines, and it does not mark a Machine without a controller, because nothing would act; the message reports that.
// While a workload cluster cannot be reached, Machines are judged by their own conditions and annotations, and facts about Nodes do not
// count. A Machine is marked for the conditions of its Node only when the API server has them too, and for its deletion when the API server
// confirms it, because the cache may be behind. A Node of the recorded name with another provider ID replaces the recorded Node only if its
// UID differs too, and the recorded UID is known.
//
// A Machine with healthcheck.SkipAnnotation is not judged. Earlier conditions of the check are removed, and a request for remediation on
// which the owner has not acted is withdrawn: otherwise a Machine whose Node has recovered would not be available, and a Machine that a
// person wants to retain would be replaced. Nothing is written to a paused Machine.
//
// A Machine that several checks select is judged by the oldest check that is neither paused nor being deleted, because they would overwrite
// each other's conditions; the message of RemediationAllowed of the others names such a check. Machines that need limits of their own need
// their own check, which the selectors of the other checks exclude.
//
// A deleted check does not change the conditions of its Machines: marked Machines are remediated. A check has no finalizer.
//
// # What differs from Cluster API
//
// The message of HealthCheckSucceeded reports why an unhealthy Machine is not remediated. A template or request that fails does not block
// the remediation of other Machines. OwnerRemediated is removed when a Machine recovers before its owner acts. A Machine whose Node has not
// reported whether it is Ready is not healthy yet. The earlier result of a Machine with the annotation skip-remediation is removed.
// Outages, and remediations in progress, count too.
package remediation
