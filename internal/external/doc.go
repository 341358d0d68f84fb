// Package external looks up objects whose kinds other projects define: the objects that a Machine, a set or a pool references, and its
// Cluster.
//
// A [Tracker] reads referenced objects of any kind through a cache. The kind's CustomResourceDefinition defines the API version and the
// contract. The Tracker starts one informer per kind, when the first object of the kind is read. It never waits for an informer: it wakes
// objects that were read too early when the first list is complete.
//
// [Clusters] reads Cluster objects in the same way. It wakes Machines only for changes that matter to them.
//
// # Unread is not absent
//
// A [Presence] distinguishes an absent object from one that was not read, and a [Problem] describes what a person can do. A cache may be
// behind. Before anything is destroyed or skipped because an object is gone, [ConfirmAbsent] confirms that with the API server.
//
// # Floor
//
// This package reads through a client, so it is on floor 2a, unlike package contract, which only decides. Reconcilers of all
// floors above use it.
package external
