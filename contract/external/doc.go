// Package external looks up objects of kinds that other projects define: what a Machine, a set or a pool refers to, and its Cluster.
//
// A Tracker reads referenced objects through a cache, whatever their kind. It learns from the kind's CustomResourceDefinition in
// which version and by which contract they are read, starts one informer for each kind at the first look at it, and
// never waits for one: the first list, when it is complete, wakes those that were read too early. Clusters reads Cluster objects in the
// same way, and wakes only for what lifecycles look at; of a Go type, each version of a Cluster is converted once.
//
// # What is known
//
// Unread is not Absent. A Presence says which of the two it is, a Problem what a person can do about it, and ConfirmAbsent
// asks the API server itself before anything is destroyed or skipped because an object is gone: a cache may be behind. What it says of a
// Cluster is remembered for a moment, so that however many Machines look, one asks.
//
// # Where it stands
//
// This package reads through a client and so stands on floor 2a, unlike package contract above it, which only decides. It is for
// reconcilers of every floor above: single Machines and many share one way to look.
package external
