// Package pass exports what the reconcilers of all kinds share: steps, scopes, ports and options. In a pass, a reconciler reads one object
// and its dependencies, decides, acts, and writes the object.
//
//   - [Steps] are the named parts of a pass. Methods of the list insert, replace and remove a [Step]. A step written for Machines can be
//     inserted for sets or pools in the same way.
//   - [Scope] is one pass over one object, with its conditions, pause, Cluster, finalizer and owners. The Scope of each kind embeds it.
//   - [Ports] and [Options] are the dependencies and the settings of the reconciler of each kind.
//   - [Clusters] reads the Clusters that objects refer to. It provides Ports.ClusterOf and Ports.ClusterEvents.
//
// # Order of a pass
//
// A pass skips objects that the watch filter excludes, objects that are being deleted and no longer have the finalizer, and objects that
// are older in the cache than the last write of this process. Then it runs the steps and writes the object: metadata and spec first, then
// the status on top of the answer. A conflict ends the pass and is retried; it is no error.
//
// # Traces
//
// While the process records an execution trace (runtime/trace, or /debug/pprof/trace), each pass is a task in it, such as "reconcile
// Machine", with the key of the object, and each step a region with its name; "write" is the region of the writes at the end. For the spans
// of another tracer, wrap the Run of each step, as the example of [Step] does.
package pass
