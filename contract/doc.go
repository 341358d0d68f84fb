// Package contract reads and writes what a provider object or a Machine says, as plain values.
//
// Cluster API's provider contract fixes where an InfraMachine or a BootstrapConfig stores each value, for each contract
// version. Here a version is a table of [Field] values, which this package calls a layout. A Machine of any shape and a set
// of any shape are layouts too. Reconcilers see a state such as [MachineState] and write an update such as [MachineUpdate];
// they never see an API type.
//
// # Usage
//
// To read a provider object, find the contract version of its kind from the labels of its CRD ([CRDName], [Resolve]), take
// the layout and read:
//
//	resolved, err := contract.Resolve(crd.Name, crd.Labels)
//	var state contract.InfraMachineState
//	err = contract.LayoutsOf(resolved.Contract).InfraMachine.Read(obj, &state)
//
// To read and write Machines, make a [Kind]. [Unstructured] makes it from a layout, [NewTyped] from a Go type and two
// functions. [CheckKind] returns in a test which members of the state such a kind does not keep:
//
//	kind := contract.Unstructured(gvk, contract.LayoutsOf(contract.V1Beta2).Machine)
//	var machine contract.MachineState
//	err := kind.Adapter.Read(obj, &machine)
//	err = kind.Adapter.Write(obj, contract.MachineUpdate{Phase: contract.SetTo("Running")})
//
// A [MachineMaker] makes the Machines of sets, and a [MachineSetMaker] the sets of deployments: [UnstructuredMaker] and
// [UnstructuredSetMaker] make them from layouts; for Go types, write your own, which [CheckMaker] and
// [CheckSetMaker] check in a test. [Kinds] are those of one API group, with their makers: [ClusterAPI], [Kubermatic] and [Gardener]
// return them for the reconcilers.
//
// To create an object from a template, use [FromTemplate]. To build the patch between two versions of an object, use
// [MergePatch].
//
// # Layouts
//
// [LayoutsOf] returns the [Layouts] of a contract version: those of cluster.x-k8s.io, and of the objects of providers.
// [KubermaticLayouts] and [GardenerLayouts] return those of the other systems.
//
// [Places] lists every field of a layout; its tags say who writes it, and what its absence means. For a CRD of your own, copy the layout
// that is nearest and change its fields ([At], [SecondsAt], [RefAt], [ConditionsAt]), or fill in a table of your own. State that the CRD's
// schema has no field for goes to an annotation ([AtAnnotation]); the layouts here use annotations that begin with machinist.dev.
//
// # Guarantees
//
// Everything is safe for concurrent use. Reading a scalar or a provider object into a reused state allocates nothing, keeps
// nothing and changes nothing. What an adapter writes it reads back equal, times to the second, and every other field stays
// as it was.
//
// Absent is a value and not an error. A value of another type is an error that matches [ErrWrongType] and names the dotted
// path. Some values are only shown to people, or are not due yet: if one of them cannot be read, the member Unreadable of
// the state says so and reading goes on. A Ready condition that cannot be read is Unknown with [ReasonInvalidCondition].
package contract
