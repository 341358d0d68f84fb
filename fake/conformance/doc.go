// Package conformance says what a Kubernetes API server and the controllers around it do where this library depends on it, as a
// table of cases that run against any client.
//
// The table is run against fake.Store with its loops and against a real control plane (kube-apiserver, controller-manager,
// scheduler and kwok). A case cannot know which of them it talks to, so a difference in behaviour fails.
//
// # Guarantees
//
//   - A case uses its own namespace; cluster-scoped objects carry the namespace in their names. Cases may run at the same time.
//   - Waiting is bounded: 30 seconds for each thing waited for.
//   - A failing case says what was expected and what was found.
//
// # Limits
//
//   - Cases leave their objects behind for the namespace's end; the custom kinds of the group conformance.machinist.dev stay.
//   - What cannot be provoked on a real cluster on purpose (a compacted watch history, a budget that is not observed yet) is
//     tested in package fake alone.
package conformance
