// Package apitest describes the behaviour of a Kubernetes API server and its controllers on which this library depends, as a
// table of cases that run against any client.
//
// The table runs against fake.Store with its loops and against a real control plane (kube-apiserver, controller-manager,
// scheduler and kwok). A case does not know which one it uses, so a difference in behaviour fails.
//
// A case is a list of steps. A step is a request about an object, which is written "Kind/name", or a wait:
//
//	create("ConfigMap/a", `{"data":{"k":"new"}}`)                 // what each kind begins with is in base
//	update("ConfigMap/a", `{"data":{"k":null}}`)                  // as it was last seen, with these fields; null removes one
//	remove("ConfigMap/a", "").fails("404 NotFound", "a text")     // is refused
//	read("ConfigMap/a:metadata").shows(".metadata.uid = $uid")    // through another Go type
//	await("ConfigMap/a", ".metadata.deletionTimestamp present")   // reads until it is so
//
// # Guarantees
//
//   - A case uses its own namespace; the names of cluster-scoped objects contain the namespace. Cases may run at the same time.
//   - Every wait is limited to two minutes.
//   - A failing case reports the step, what was expected and what was found.
//
// # Limits
//
//   - Cases do not delete their objects, which end with the namespace; the custom kinds of the group conformance.machinist.dev stay.
//   - Behaviour that cannot be provoked on a real cluster (a compacted watch history, a budget that is not observed yet) is tested
//     only in package fake.
package apitest
