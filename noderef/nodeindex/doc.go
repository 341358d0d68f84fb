// Package nodeindex keeps the Node index of a cluster and wakes controllers when a Node changes.
//
// [New] puts one event handler on the Node informer of a controller-runtime cache. That handler updates the index and then
// tells the subscribers, in this order; [Index.Source] makes a subscriber of a controller. With one handler for the index and
// another for the controller, as controller-runtime sets them up, the two would race: a Machine could be woken by its Node
// and then not find it.
//
// # Guarantees
//
//   - When a subscriber is told of a Node, the index has it, or has already seen something newer. It is told of the events one
//     by one and in order.
//   - A subscriber that starts late is told of every Node that is there.
//   - Lookups take constant time, allocate nothing, copy no Node and make no request, whether they find something or not.
//     Reads through a controller-runtime client copy every Node they return; one that finds nothing and then looks through all
//     Nodes, as Cluster API's does, copies the cluster (make bench BENCH=Lookup).
//   - [Index.HasSynced] is true only after the index itself has seen the whole first list.
//   - Updates that are not significant (noderef.Significant), such as heartbeats, wake no Machine. A mapper receives one Node at
//     a time, so that Machines that wait for another one are not read.
//
// [TrimNode] makes the cache, and with it the index, smaller.
//
// # Limits
//
// Nodes are the informer's own objects: changing one corrupts the cache of the whole process. The index sees what the
// cache sees: with a selector on Nodes it holds only those. When the Node informer is removed from the cache, the index stays
// as it was.
//
// A mapper runs on the goroutine of the event handler. It may look up the index and read caches, but it must not wait for
// anything, and it must not start a source: later events and the index itself would wait for it.
package nodeindex
