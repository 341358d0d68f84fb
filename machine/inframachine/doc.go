// Package inframachine makes a provider.Driver an infrastructure provider of Cluster API: it reconciles InfraMachines according to their
// contract, so that a new provider is one Driver and one CRD.
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
// bootstrap data, and creates the instance. Package internal/instance decides which call is next, as for machine.WithDriver. The Token of
// the instance is the UID of the InfraMachine, so a lost response or a stopped process creates no second instance. The provider ID, and the
// data that find an instance without one (contract.InstanceResumeAnnotation), are written before the status, in the pass that gets them.
//
// The condition Ready names what is waited for; in contract v1beta1, failureReason and failureMessage report a lost instance. Once the
// instance has run, status.initialization.provisioned (v1beta1: status.ready) stays true.
//
// # Errors
//
// Every error is retried with the delay of its class. A rejected creation is also repeated when the specification or the credentials
// change.
//
// # Deletion
//
// A deletion uses the provider ID. Without one, the Driver first looks up the instance by the Token, and its ID is recorded; an instance
// without an ID is deleted by the Token. A deletion needs neither the Machine, nor a class, nor a valid specification; a Driver that reads
// its credentials from a Secret needs the Secret. The finalizer is removed when the Driver reports that nothing is left.
//
// An InfraMachine whose Machine references another object, as one that was copied with its owner reference, gets no instance. An instance
// whose provider ID several InfraMachines have is retained until all of them are being deleted, or only one has the ID; the condition
// Deleting names the others. An InfraMachine that no Machine references does not block one that a Machine references. An InfraMachine in
// another namespace, as after a backup was restored there, does not block the one whose Token the Driver reports for the instance.
// InfraMachines in namespaces that are not in the cache, or in other management clusters, are not seen. An InfraMachine whose Machine is
// gone is deleted like any other.
//
// # Limits
//
// An instance that ran is read in every pass and after Options.Refresh: decorate the Driver with provider.Cache. A lost instance is not
// created again: the owner of the Machine decides. InfraMachineTemplates need no reconciler.
package inframachine
