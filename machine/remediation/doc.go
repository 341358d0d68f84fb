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
// [Options].Checks replaces what makes a Machine unhealthy.
//
// # What it writes
//
// On Machines, in one write of the status: HealthCheckSucceeded, True for a Machine with a Node and nothing wrong with it; and for one
// that is to be remediated OwnerRemediated, False with the reason WaitingForRemediation. The owner acts on that: a set, a pool or a
// control plane. Where a check names a template, an object of the Machine's name is made from it in place of that, ExternallyRemediated
// says how far it is, and it is deleted when the Machine is healthy again. An object of that name that is not owned by the Machine, by UID,
// stays unchanged.
//
// On the check: expectedMachines, currentHealthy, remediationsAllowed, the sorted targets, and RemediationAllowed with the reason why
// nothing happens. The ledger of package machine/healthcheck is an annotation, written before a Machine is marked. Events come with
// changes only.
//
// # What it does not do
//
// It replaces nothing itself, and a Machine without a controller is not marked, because nothing would act; its message says so. While a
// workload cluster cannot be reached, Machines are judged by their own conditions and annotations, and nothing that is about Nodes counts.
// A Machine is marked for the conditions of its Node only when the API server has them too, and for its deletion when the API server
// confirms that it is gone: the cache may be behind. A Node of the recorded name with another provider ID replaces the recorded one only
// where its UID differs too, and the recorded UID is known.
//
// A Machine with healthcheck.SkipAnnotation is not judged. What the check has said of it before is removed, and a request for its
// remediation is withdrawn on which its owner has not acted: a Machine whose Node has recovered would not be available otherwise, and one
// that a person wants to keep would be replaced. Nothing is written to a Machine that is paused.
//
// A Machine that several checks select is judged by the oldest of them that is neither paused nor being deleted; the message of
// RemediationAllowed of the others names one. They would overwrite each other's conditions otherwise. Machines that need limits of their
// own have a check of their own, and the selectors of the others leave them out.
//
// A check that is deleted leaves the conditions of its Machines: what is marked is remediated. It has no finalizer.
//
// # What differs from Cluster API
//
// Machines that are not remediated although they are unhealthy say why in the message of HealthCheckSucceeded. One template or request that
// fails does not keep the other Machines from being remediated. OwnerRemediated is removed when a Machine recovers before its owner acts.
// A Machine whose Node has not reported whether it is Ready is not healthy yet. The earlier result of a Machine with the annotation
// skip-remediation is removed.
// Outages, and what is in flight, count too.
package remediation
