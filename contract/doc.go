// Package contract reads and writes what a provider object or a Machine says, as plain values.
//
// Cluster API's provider contract fixes where an InfraMachine or a BootstrapConfig keeps each value, per contract version.
// Here a version is a table of [Field] values ([InfraMachine], [BootstrapConfig]), and a Machine of any shape is a
// [MachineLayout]: reconcilers see [MachineState] and [MachineUpdate], never an API type.
//
// # Usage
//
// Find the contract version of a kind from the labels of its CRD with [CRDName] and [Resolve], take the layout and read:
//
//	resolved, err := contract.Resolve(crd.Name, crd.Labels)
//	var state contract.InfraMachineState
//	err = contract.InfraMachine(resolved.Contract).Read(obj, &state)
//
// # Guarantees
//
// Everything is safe for concurrent use. Reading a scalar or a provider object into a reused state allocates nothing, keeps
// nothing and changes nothing. Absent is a value and not an error; a value of another type is an error that matches
// [ErrWrongType] and names the dotted path. Only a Ready condition that cannot be read holds nothing up: it is read as
// Unknown with [ReasonInvalidCondition].
//
// What an adapter writes it reads back equal, times to the second, and every other field stays as it was. State that the
// served schema has no field for lives in machinist.dev annotations.
//
// Patches are the difference of two objects ([MergePatch]) rather than a second writer beside the adapter: an adapter says
// once where a value goes, and the patch is minimal by construction, also when an update sets what is already there.
//
// # Fields of provider objects
//
// # Limits
//
// The package imports apimachinery only.
package contract
