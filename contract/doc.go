// Package contract reads and writes provider objects and Machines as plain values.
//
// Cluster API's provider contract defines where an InfraMachine or a BootstrapConfig stores each value, for each contract version. In this
// package a version is a table of [Field] values, called a layout. Machines and sets of any shape have layouts too. Reconcilers read a
// state such as [MachineState] and write an update such as [MachineUpdate]; they never use an API type.
//
// # Usage
//
// To read a provider object, resolve the contract version of its kind from the labels of its CRD ([CRDName], [Resolve]), get the layout and
// read:
//
//	resolved, err := contract.Resolve(crd.Name, crd.Labels)
//	var state contract.InfraMachineState
//	err = contract.LayoutsOf(resolved.Contract).InfraMachine.Read(obj, &state)
//
// To read and write Machines, make a [Kind]. [Unstructured] makes it from a layout, [NewTyped] from a Go type and two functions. In a test,
// [CheckKind] returns the members of the state that such a kind does not store:
//
//	kind := contract.Unstructured(gvk, contract.LayoutsOf(contract.V1Beta2).Machine)
//	var machine contract.MachineState
//	err := kind.Adapter.Read(obj, &machine)
//	err = kind.Adapter.Write(obj, contract.MachineUpdate{Phase: contract.SetTo("Running")})
//
// A [MachineMaker] makes the Machines of sets, and a [MachineSetMaker] the sets of deployments. [UnstructuredMaker] and
// [UnstructuredSetMaker] make them from layouts. For Go types, write your own, and check them in a test with [CheckMaker] and
// [CheckSetMaker]. [Kinds] holds the kinds of one API group and their makers: [ClusterAPI], [Kubermatic] and [Gardener] return them for the
// reconcilers.
//
// To create an object from a template, use [FromTemplate]. To build the patch between two versions of an object, use [MergePatch].
//
// # Layouts
//
// [LayoutsOf] returns the [Layouts] of a contract version: of cluster.x-k8s.io, and of the objects of providers. [KubermaticLayouts] and
// [GardenerLayouts] return those of the other systems.
//
// [Places] lists every field of a layout; its tags name the writer of the field and what its absence means. For your own CRD, copy the
// nearest layout and change its fields ([At], [SecondsAt], [RefAt], [ConditionsAt]), or fill in a new table. State without a field in the
// schema of the CRD goes to an annotation ([AtAnnotation]); the layouts here use annotations that begin with machinist.dev.
//
// # Guarantees
//
// Everything is safe for concurrent use. Reading a scalar, or an unchanged object into a reused state, retains nothing and changes nothing,
// and it allocates nothing but for JSON content, such as a provider's specification, and versions of a control plane. An adapter reads back
// what it wrote, times to the second, and does not change any other field.
//
// Absence is a value and not an error. A value of another type is an error that matches [ErrWrongType] and names the dotted path. Some
// values are only shown to people, or are not due yet: an unreadable one is reported in the member Unreadable of the state, and reading
// continues. An unreadable Ready condition is Unknown with [ReasonInvalidCondition].
package contract
