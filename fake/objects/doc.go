// Package objects makes objects of the contract for unit tests that need no API server. They are Machines, InfraMachines, BootstrapConfigs
// and pools in the states that their readers distinguish, for each contract version, and Nodes that match them. Tests need not know in
// which field a version stores a value.
//
//	id := "aws:///eu-1a/i-1"
//	infra := objects.InfraMachine(contract.V1Beta1, "worker-1", objects.Provisioned(id))
//	node := objects.Node("ip-10-0-0-1", id)
//	machine := objects.Machine("worker-1", objects.Speaking(contract.V1Beta1), objects.Running(node))
//
// It links the types of Kubernetes and this module's contract, and neither client-go nor controller-runtime. Package fake has an API server
// and providers for them.
//
// # Guarantees
//
// Equal arguments give equal objects: no clock is read. An object shares no mutable data with another one or with an argument.
//
// # Limits
//
// Objects have neither UID nor resourceVersion: an API server assigns both. A server with the status subresource drops the status of a
// create; write the status afterwards.
package objects
