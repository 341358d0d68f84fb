// Package inframachine makes a provider.Driver an infrastructure provider of Cluster API: it reconciles InfraMachines as their contract
// demands, so that a new provider is one Driver and one CRD.
//
// # Usage
//
// [SetupWithManager] adds a [Reconciler] to a manager, for the [Kinds] that [ClusterAPI] returns or for Go types of your own
// (contract.NewTyped). For InfraMachines that follow Clusters, fill ClusterOf of the ports and call [New]. [Reconciler.ReconcileObject]
// makes one pass inside a loop of your own. Package contract/conformance checks the CRD.
//
// # A pass
//
// A pass runs the [Steps]: it waits for the owner Machine, stores the finalizer, waits for the infrastructure of the Cluster and for the
// bootstrap data, and makes the instance. Package internal/instance decides which call is next, as for machine.WithDriver. The
// Token of the instance is the UID of the InfraMachine, so a lost answer or a process that dies makes no second instance. The provider ID
// and what finds an instance without one (contract.InstanceResumeAnnotation) are written before the status, in the pass that learns them.
//
// The condition Ready says what is waited for; in contract v1beta1, failureReason and failureMessage say that the instance is lost. Once
// the instance has run, status.initialization.provisioned (v1beta1: status.ready) stays true.
//
// # Errors
//
// What the Driver refuses costs no call until the specification or the credentials change, which a pass looks at. Refused credentials are
// also tried again after 5 seconds at first and after up to 10 minutes. Every other error waits as long as its class says.
//
// # Deletion
//
// A deletion uses the provider ID. Without one, the Driver is asked for the instance of the Token first, and the ID it has is recorded;
// the Token deletes what has none. A deletion needs neither the Machine, nor a class, nor a valid specification; a Driver that reads its
// credentials from a Secret needs that. The finalizer goes when the Driver says that nothing is left.
//
// An InfraMachine whose Machine names another object, as one that was copied with its owner reference, gets no instance. An instance whose
// provider ID several InfraMachines have stays until all of them are being deleted, or one has the ID alone; the condition Deleting
// names the others. One that no Machine names does not hold one that a Machine names. One of another namespace, as after a backup was
// restored there, does not hold the one whose Token the Driver says for the instance; the others of the kind are not seen in namespaces
// that the cache does not have, or in other management clusters. One whose Machine is gone is deleted like every other.
//
// # Limits
//
// An instance that ran is looked at in every pass and after Options.Refresh: decorate the Driver with provider.Cache. One that is lost is
// not made again: the owner of the Machine decides. InfraMachineTemplates need no reconciler.
package inframachine
