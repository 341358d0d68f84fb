// Package capi runs Cluster API's own programs beside this library: its manager as a peer that does the same work, and clusterctl as a
// judge of what Machines say. They are built from Cluster API's module and never required, because it pins other versions of
// Kubernetes' modules.
package capi
