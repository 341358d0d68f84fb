// Package engine is the frame of all reconcilers of this library. One pass reads one object
// and what it depends on, decides, acts, and writes the object. What all kinds do alike is here, once:
//
//   - [Steps] and [Step]: the parts of a pass, by name, and the methods that change their list. A step that was written for a Machine is
//     put into a set or a pool in the same way;
//   - [Frame]: a kind, its ports and options; it reads objects, applies the watch filter and the index, and sends patches;
//   - [Scope]: one pass over one object, with its conditions, pause, Cluster, finalizer, owners and the writes;
//   - [Memory]: what a process remembers about an object between passes;
//   - rules that several kinds share, such as [DecidePause] and [DecideBootstrap].
//
// # Order of a pass
//
// [Reconciler.ReconcileObject] skips objects that the watch filter excludes, that no longer have the finalizer while they are being
// deleted, and that the cache shows older than this process has written them. Then it runs the steps, and writes the object: metadata and
// spec first, then the status on top of the answer. A conflict ends the pass and is retried; it is no error. Neither is a write that is put
// off because others undo it, see package patch: the condition Contested reports it, and ends soon after.
//
// # Traces
//
// While the process records an execution trace (runtime/trace, or /debug/pprof/trace), each pass is a task in it, such as "reconcile
// Machine", with the key of the object, and each step a region with its name; "write" is the region of the writes at the end. For the
// spans of another tracer, wrap the Run of each step, as the example of [Step] does.
package engine
