// Package nodeindex keeps the Node index of a cluster and wakes controllers when a Node changes.
//
// [New] adds one event handler to the Node informer of a controller-runtime cache. The handler first updates the index and then
// tells the subscribers; [Index.Source] makes a controller a subscriber. With separate handlers for the index and the
// controller, as controller-runtime sets them up, a Machine could be woken by its Node and then not find it in the index.
//
// # Guarantees
//
//   - When a subscriber receives an event of a Node, the index has that state of the Node or a newer one. Events come one by one
//     and in order.
//   - A subscriber that starts late receives every existing Node.
//   - Lookups take constant time, allocate nothing, copy no Node and make no request, whether they find a Node or not. Reads
//     through a controller-runtime client copy every Node that they return; if a lookup finds nothing and then lists all Nodes,
//     as Cluster API's does, it copies all Nodes of the cluster (make bench BENCH=Lookup).
//   - [Index.HasSynced] is true only after the index has the whole first list.
//   - Updates that are not significant (noderef.Significant), such as heartbeats, wake no Machine. A mapper receives one Node at
//     a time, so that only the Machines of this Node are read.
//
// [TrimNode] reduces the memory of the cache, and with it that of the index.
//
// # Limits
//
// Nodes are the informer's own objects: changing one corrupts the cache of the whole process. The index has the Nodes of the
// cache: with a selector on Nodes, only those. When the Node informer is removed from the cache, and after [Index.Stop], the index
// no longer changes.
//
// A mapper runs on the goroutine of the event handler. It may use the index and read caches. It must not block and must not start
// a source, because later events and the index itself would wait for it.
package nodeindex
