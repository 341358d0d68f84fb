// Package conformance lints the CRDs and objects of a Cluster API provider against the provider contract.
//
// A provider that breaks the contract shows no error: its Machines wait. [CheckCRD] and [CheckObject] say which rule is
// broken, where, and what waits for it, from the same layouts that the readers of package contract use: the path of each value
// is defined only there. The command examples/contractlint does this for files.
//
// # Usage
//
//	role, ok := conformance.RoleOf(schema.GroupKind{Group: group, Kind: kind}, true)
//	for _, finding := range conformance.CheckCRD(crd, role).Findings {
//		fmt.Println(finding)
//	}
//
// [RoleOf] guesses by names: ask [Resembles] too before the CRD of another project is judged. In a provider's own tests, fail for every
// [Finding] with level [Must], and read the others.
//
// # What is judged
//
// Of a CRD: the contract labels (there, not empty, naming versions that exist and are served), the name of the CRD, the scope,
// the names of the kind and of its list, the status subresource, and for each API version that a label names, every field of
// that contract's layout in the OpenAPI schema: a field that the contract asks for and the API server would drop, and a field
// of a type that its readers do not take, whether they need it or not. So an API version under the label of contract v1beta2
// whose schema is still that of v1beta1, which makes Machines wait for ever, is found. Of a CRD
// without a label of a contract that Cluster API reads that is all that is found.
//
// Of an object: the same fields by their readers, and what is said together. An object that was just made breaks no rule; one
// that says that it is done must say the rest.
//
// # Levels
//
// [Must] is what keeps a Machine or a MachinePool from coming up, or from being read at all. [Should] is what the contract asks
// for and people miss, such as conditions, and what is wrong but no controller reads: a label that also names an API version which
// is gone, or a lower one whose schema does not keep the contract, because only the highest is read. Beside a label of contract v1beta2,
// what only v1beta1 asks for is a [Should] too that names the releases which need it: newer ones read the newest label that they know.
// Labels of v1alpha3 and v1alpha4 beside a newer one are not judged, because Cluster API no longer reads them.
//
// # Guarantees
//
// Everything is safe for concurrent use, takes any JSON object, neither changes nor keeps it, and does not panic. Equal input
// gives equal, sorted reports.
//
// # Limits
//
// What a CRD cannot show is not judged: RBAC and its aggregation label, the dry run of a topology controller, pausing, what
// conversion webhooks keep, and whether the templates that belong to a kind exist. Control planes and infrastructure clusters
// have no role, because Machines and MachinePools read next to nothing of them.
package conformance
