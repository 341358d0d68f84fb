// Package apitest describes the behaviour of a Kubernetes API server and its controllers on which this library depends, as a
// table of cases that run against any client.
//
// The table runs against fake.Store with its loops and against a real control plane (kube-apiserver, controller-manager,
// scheduler and kwok). A case does not know which one it uses, so a difference in behaviour fails.
//
// # Guarantees
//
//   - A case uses its own namespace; the names of cluster-scoped objects contain the namespace. Cases may run at the same time.
//   - Every wait is limited to two minutes.
//   - A failing case reports what was expected and what was found.
//
// # Limits
//
//   - Cases do not delete their objects, which end with the namespace; the custom kinds of the group conformance.machinist.dev stay.
//   - Behaviour that cannot be provoked on a real cluster (a compacted watch history, a budget that is not observed yet) is tested
//     only in package fake.
package apitest
