// Package workload gives reconcilers the Nodes of the cluster that an object belongs to, wherever that cluster is.
//
// A [Workload] is the access to the Nodes of one cluster: an index, a client, a drainer and its volumes. [FromManager] makes one for the
// manager's own cluster, and [Setup] one for each connection of cluster.Clusters, whose current one [NodesOf] returns. One connection
// serves all reconcilers: those of Machines, of pools, and of your own.
//
// A [Tracker] looks the Workload of an object up by the name of its cluster, and wakes objects when a Node changes, when a drain moves on
// and when a cluster is connected. A controller adds its [Tracker.Sources].
//
// # Nodes that cannot be read
//
// What cannot be read is not absent. There are two answers for that, and both end with an event: an error that [IsUnread] reports, and a
// Workload without an error whose Nodes.HasSynced is false, because only the first list is missing. [Unread] says either in a sentence for
// a condition. Any other error is retried with back-off. An index may be behind by one registration, so a recorded Node that it does not
// have is gone only when [Workload.IsGone] confirms that.
package workload
