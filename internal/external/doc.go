// Package external looks up objects whose kinds other projects define: what a Machine, a set or a pool refers to, and its Cluster.
//
// A [Tracker] reads referenced objects of any kind through a cache. The kind's CustomResourceDefinition tells it which API
// version and which contract to use. It starts one informer per kind, when the first object of the kind is read. It never waits
// for an informer: it wakes the objects that asked too early when the first list is complete.
//
// [Clusters] reads Cluster objects in the same way. It wakes Machines only for changes that matter to them.
//
// # Unread is not absent
//
// A [Presence] tells whether an object is absent or was only not read, and a [Problem] tells what a person can do about it.
// A cache may be behind. Before anything is destroyed or skipped because an object is gone, [ConfirmAbsent] asks the API server.
//
// # Floor
//
// This package reads through a client, so it is on floor 2a, unlike package contract, which only decides. Reconcilers of all
// floors above use it.
package external
