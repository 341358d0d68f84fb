// Package verdict judges what happened to a MachineDeployment by the audit log of kube-apiserver: it has the invariants of package
// internal/simulation for a real control plane, where no process sees every write at the moment it is made.
//
// The log needs the bodies of writes to pods, nodes, machines and kwokmachines (cluster.Options.AuditObjects). The instances of the
// provider are the Nodes of package examples/manager/kwokdriver.
//
// # What the log does not say
//
// A write that was carried out has no event when the API server is killed before it answers, and one that failed with a timeout may have
// been carried out. Judge is told of the former by Terms.Lost and sees the latter. What may have happened in such a moment is taken for
// granted where it speaks for the programs, and only for the object that it concerns. An object that is in no event is not judged.
//
// Events of one kind are ordered by the resource versions in their answers, as etcd has ordered them; those of different kinds by the
// time at which the API server received the requests, so that a cause is before its effect.
package verdict
