// Package children keeps what an owner of replicas has in common with other such owners, whatever the kind of its children.
//
// Summary turns the Machines of a set, or of a deployment, into its conditions and numbers, as Cluster API does.
package children
