// Package conformance lints the CRDs and objects of a Cluster API provider against the provider contract.
//
// A provider that breaks the contract causes no error: its Machines wait. [CheckCRD] and [CheckObject] report which rule is broken, where,
// and what waits for it. They use the same layouts as the readers of package contract: the path of each value is defined only there. The
// command examples/contractlint does this for files.
//
// # Usage
//
//	role, ok := conformance.RoleOf(schema.GroupKind{Group: group, Kind: kind}, true)
//	for _, finding := range conformance.CheckCRD(crd, role).Findings {
//		fmt.Println(finding)
//	}
//
// [RoleOf] guesses by names: before you check the CRD of another project, call [Resembles] too. In a provider's own tests, fail for every
// [Finding] with level [Must], and read the others.
//
// # Checks
//
// Of a CRD: the contract labels (present, not empty, listing versions that exist and are served), the name of the CRD, the scope, the names
// of the kind and of its list, and the status subresource. For each API version in a label, every field of that contract's layout in the
// OpenAPI schema: a field that the contract requires and the API server would prune, and a field of a type that its readers reject, whether
// required or not. This finds an API version under the label of contract v1beta2 with the schema of v1beta1, which makes Machines wait for
// ever. A CRD without a label of a contract that Cluster API reads has only that finding.
//
// Of an object: the same fields by their readers, and their consistency. A new object breaks no rule; one that reports completion must have
// the other required fields.
//
// # Levels
//
// [Must] is a problem that prevents a Machine or a MachinePool from becoming ready, or from being read at all. [Should] is a field that the
// contract requests for people, such as conditions, or a problem that no controller reads: a label that also lists an API version which
// does not exist, or a lower one whose schema breaks the contract, because only the highest is read. With a label of contract v1beta2, a
// problem of v1beta1 only is also a [Should] that names the releases affected: newer ones read the newest label that they support. Labels
// of v1alpha3 and v1alpha4 next to a newer one are not checked, because Cluster API no longer reads them.
//
// # Guarantees
//
// Everything is safe for concurrent use, accepts any JSON object, neither changes nor retains it, and does not panic. Equal input gives
// equal, sorted reports.
//
// # Limits
//
// Rules that a CRD cannot show are not checked: RBAC and its aggregation label, the dry run of a topology controller, pausing, conversion
// webhooks, and whether the templates of a kind exist. Control planes and infrastructure clusters have no role, because Machines and
// MachinePools read almost nothing from them.
package conformance
