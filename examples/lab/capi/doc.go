// Package capi runs Cluster API's own programs for comparison: its manager, and clusterctl, which describes Machines.
// They are built from Cluster API's module, which is not a requirement, because it pins other versions of Kubernetes'
// modules.
package capi
