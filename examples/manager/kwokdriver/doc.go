// Package kwokdriver is a provider.Driver whose instances are Nodes that kwok simulates: real enough to trust the port, without a cloud.
//
// An instance is a Node with the annotation kwok.x-k8s.io/node. Its token is in an annotation, and a hash of it in a label and in the name
// of the Node: so two creations with one token cannot make two Nodes, whichever process makes them. An instance has no Node while it
// boots. For the other habits of a cloud (latency, quota, rate limit, late reads, slow deletion, lost answers) decorate the Driver with
// fake.Unreliable.
//
// A Request may have Credentials, whose value token is the bearer token of the requests of that call; see NewClient. Nothing is kept of it.
//
// The package also has KwokMachine and KwokMachineTemplate, the CRDs with which the Driver is an infrastructure provider of Cluster API.
package kwokdriver
