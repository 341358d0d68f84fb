// Package pass has what all reconcilers of this library share and an embedder touches. One pass reads one object and what it depends on,
// decides, acts, and writes the object.
//
//   - [Steps] are the parts of a pass, by name: methods of the list insert, replace and remove a [Step]. One that was written for a Machine
//     is put into a set or a pool in the same way.
//   - [Scope] is one pass over one object, with its conditions, pause, Cluster, finalizer and owners. The Scope of each kind embeds it.
//   - [Ports] and [Options] are what each kind needs and what it lets you choose.
//   - [Clusters] reads the Clusters that objects name. It is the value of Ports.ClusterOf and Ports.ClusterEvents.
//
// # Order of a pass
//
// A pass skips objects that the watch filter excludes, that no longer have the finalizer while they are being deleted, and that the cache
// shows older than this process has written them. Then it runs the steps, and writes the object: metadata and spec first, then the status
// on top of the answer. A conflict ends the pass and is retried; it is no error.
//
// # Traces
//
// While the process records an execution trace (runtime/trace, or /debug/pprof/trace), each pass is a task in it, such as "reconcile
// Machine", with the key of the object, and each step a region with its name; "write" is the region of the writes at the end. For the
// spans of another tracer, wrap the Run of each step, as the example of [Step] does.
package pass
