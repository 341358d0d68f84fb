package clusterapi

import (
	"github.com/machinist-dev/machinist/contract"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func ofMachinePool(m *clusterv1.MachinePool) replicated {
	return replicated{
		clusterName: &m.Spec.ClusterName, replicas: &m.Spec.Replicas, template: &m.Spec.Template, observed: &m.Status.Replicas,
		ready: &m.Status.ReadyReplicas, available: &m.Status.AvailableReplicas, upToDate: &m.Status.UpToDateReplicas,
		conditions: &m.Status.Conditions, generation: &m.Status.ObservedGeneration,
	}
}

func readMachinePool(m *clusterv1.MachinePool, into *contract.MachinePoolState) error {
	before := *into
	*into = contract.MachinePoolState{}
	into.Metadata.From(m)
	if err := ofMachinePool(m).read(&before.ReplicatedState, &into.ReplicatedState); err != nil {
		return err
	}
	into.ProviderIDs = m.Spec.ProviderIDList
	into.Phase = m.Status.Phase
	for i := range m.Status.NodeRefs {
		if m.Status.NodeRefs[i].Name == "" {
			return missing("status", "nodeRefs", i, "name")
		}
	}
	into.Nodes = contract.Converted(m.Status.NodeRefs, before.Nodes, func(r corev1.ObjectReference) contract.NodeRef {
		return contract.NodeRef{Name: r.Name, UID: r.UID}
	})
	into.BootstrapReady = contract.SomeAt(m.Status.Initialization.BootstrapDataSecretCreated)
	into.InfrastructureReady = contract.SomeAt(m.Status.Initialization.InfrastructureProvisioned)
	if d := m.Status.Deprecated; d != nil && d.V1Beta1 != nil {
		into.NodeReadyReplicas, into.NodeAvailableReplicas = contract.Some(d.V1Beta1.ReadyReplicas), contract.Some(d.V1Beta1.AvailableReplicas)
		into.UnavailableReplicas = contract.Some(d.V1Beta1.UnavailableReplicas)
		into.FailureReason, into.FailureMessage = textAt(d.V1Beta1.FailureReason), textAt(d.V1Beta1.FailureMessage)
	}
	return nil
}

func writeMachinePool(m *clusterv1.MachinePool, u contract.MachinePoolUpdate) error {
	u.MetadataUpdate.ApplyTo(m)
	ofMachinePool(m).write(u.ReplicatedUpdate)
	if ids, set := u.ProviderIDs.Value(); set || u.ProviderIDs.Clears() {
		m.Spec.ProviderIDList = append([]string(nil), ids...)
	}
	u.DataSecretName.ApplyToPointer(&m.Spec.Template.Spec.Bootstrap.DataSecretName)
	u.Phase.ApplyTo(&m.Status.Phase)
	if nodes, set := u.Nodes.Value(); set || u.Nodes.Clears() {
		m.Status.NodeRefs = nil
		for _, n := range nodes {
			m.Status.NodeRefs = append(m.Status.NodeRefs, corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID})
		}
	}
	u.BootstrapReady.ApplyToPointer(&m.Status.Initialization.BootstrapDataSecretCreated)
	u.InfrastructureReady.ApplyToPointer(&m.Status.Initialization.InfrastructureProvisioned)
	if anySet(u.NodeReadyReplicas, u.NodeAvailableReplicas, u.UnavailableReplicas) || anySet(u.FailureReason, u.FailureMessage) {
		old := valueAt(valueAt(m.Status.Deprecated).V1Beta1)
		u.NodeReadyReplicas.ApplyTo(&old.ReadyReplicas)
		u.NodeAvailableReplicas.ApplyTo(&old.AvailableReplicas)
		u.UnavailableReplicas.ApplyTo(&old.UnavailableReplicas)
		setText(u.FailureReason, &old.FailureReason)
		setText(u.FailureMessage, &old.FailureMessage)
		m.Status.Deprecated = &clusterv1.MachinePoolDeprecatedStatus{V1Beta1: &old}
	}
	return nil
}

// newPoolMachine makes the same Machine as machinepool.ClusterAPI. The empty secret name means that there is no bootstrap data to wait for.
func newPoolMachine(pool *contract.MachinePoolState, seed contract.MachineSeed) (contract.Object, error) {
	made := &clusterv1.Machine{Spec: clusterv1.MachineSpec{
		ClusterName: pool.ClusterName, InfrastructureRef: refTo(seed.Infrastructure), Version: pool.Template.Version,
		Bootstrap: clusterv1.Bootstrap{DataSecretName: new("")},
	}}
	seed.ApplyTo(made)
	return made, nil
}
