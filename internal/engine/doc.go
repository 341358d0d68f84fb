// Package engine is the frame of all reconcilers of this library. One pass reads one object and its dependencies, decides, acts, and writes
// the object. The parts that all kinds share are here:
//
//   - [Steps] and [Step]: the parts of a pass, by name, and the methods that change their list. A step for a Machine is inserted into a set
//     or a pool in the same way;
//   - [Frame]: a kind, its ports and options; it reads objects, applies the watch filter and the index, and sends patches;
//   - [Scope]: one pass over one object, with its conditions, pause, Cluster, finalizer, owners and the writes;
//   - [Memory]: the memory of a process about an object between passes;
//   - rules that several kinds share, such as [DecidePause] and [DecideBootstrap].
//
// # Order of a pass
//
// [Reconciler.ReconcileObject] skips objects that the watch filter excludes, that are being deleted without the finalizer, and whose
// version in the cache is older than this process's write. Then it runs the steps, and writes the object: metadata and spec first, then the
// status on top of the answer. A conflict ends the pass and is retried; it is not an error. Nor is a write that is delayed because others
// undo it (see package patch): the condition Contested reports it, and ends soon after.
//
// # Traces
//
// While the process records an execution trace (runtime/trace, or /debug/pprof/trace), each pass is a task in it, such as "reconcile
// Machine", with the key of the object, and each step a region with its name; "write" is the region of the writes at the end. For the
// spans of another tracer, wrap the Run of each step, as the example of [Step] does.
package engine
