package clusterapi

import (
	"github.com/machinist-dev/machinist/contract"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// replicated points to the fields that MachineSets, MachineDeployments and MachinePools share. Pools do not have the selector and the
// members after it.
type replicated struct {
	clusterName                          *string
	replicas                             **int32
	template                             *clusterv1.MachineTemplateSpec
	observed, ready, available, upToDate **int32
	conditions                           *[]metav1.Condition
	generation                           *int64

	selector     *metav1.LabelSelector
	order        *clusterv1.MachineSetDeletionOrder
	naming       *clusterv1.MachineNamingSpec
	selectorText *string
}

func (r replicated) read(before, into *contract.ReplicatedState) (err error) {
	into.ClusterName, into.Replicas = *r.clusterName, contract.SomeAt(*r.replicas)
	into.Template.Labels, into.Template.Annotations = r.template.Labels, r.template.Annotations
	if err := readSpec(&r.template.Spec, &before.Template.MachineSpec, &into.Template.MachineSpec, "spec.template.spec"); err != nil {
		return err
	}
	if r.selector != nil {
		into.Selector, into.SelectorText = selector(r.selector), *r.selectorText
		into.DeletionOrder, into.MachineNaming = string(*r.order), r.naming.Template
	}
	into.ObservedReplicas, into.ReadyReplicas = contract.SomeAt(*r.observed), contract.SomeAt(*r.ready)
	into.AvailableReplicas, into.UpToDateReplicas = contract.SomeAt(*r.available), contract.SomeAt(*r.upToDate)
	into.ObservedGeneration = *r.generation
	into.Conditions, err = conditions(*r.conditions, before.Conditions)
	return err
}

// write writes all but the deprecated counters.
func (r replicated) write(u contract.ReplicatedUpdate) {
	u.Replicas.ApplyToPointer(r.replicas)
	if r.selectorText != nil {
		u.SelectorText.ApplyTo(r.selectorText)
	}
	u.ObservedReplicas.ApplyToPointer(r.observed)
	u.ReadyReplicas.ApplyToPointer(r.ready)
	u.AvailableReplicas.ApplyToPointer(r.available)
	u.UpToDateReplicas.ApplyToPointer(r.upToDate)
	u.ObservedGeneration.ApplyTo(r.generation)
	setConditions(r.conditions, u.Conditions, u.RemoveConditions)
}

func ofMachineSet(m *clusterv1.MachineSet) replicated {
	return replicated{
		clusterName: &m.Spec.ClusterName, replicas: &m.Spec.Replicas, template: &m.Spec.Template, selector: &m.Spec.Selector,
		order: &m.Spec.Deletion.Order, naming: &m.Spec.MachineNaming, selectorText: &m.Status.Selector, observed: &m.Status.Replicas,
		ready: &m.Status.ReadyReplicas, available: &m.Status.AvailableReplicas, upToDate: &m.Status.UpToDateReplicas,
		conditions: &m.Status.Conditions, generation: &m.Status.ObservedGeneration,
	}
}

func readMachineSet(m *clusterv1.MachineSet, into *contract.MachineSetState) error {
	before := *into
	*into = contract.MachineSetState{}
	into.Metadata.From(m)
	if d := m.Status.Deprecated; d != nil && d.V1Beta1 != nil {
		into.NodeReadyReplicas, into.NodeAvailableReplicas = contract.Some(d.V1Beta1.ReadyReplicas), contract.Some(d.V1Beta1.AvailableReplicas)
		into.FullyLabeledReplicas = contract.Some(d.V1Beta1.FullyLabeledReplicas)
	}
	return ofMachineSet(m).read(&before.ReplicatedState, &into.ReplicatedState)
}

func writeMachineSet(m *clusterv1.MachineSet, u contract.MachineSetUpdate) error {
	u.MetadataUpdate.ApplyTo(m)
	ofMachineSet(m).write(u.ReplicatedUpdate)
	if anySet(u.NodeReadyReplicas, u.NodeAvailableReplicas, u.FullyLabeledReplicas) {
		old := valueAt(valueAt(m.Status.Deprecated).V1Beta1)
		u.NodeReadyReplicas.ApplyTo(&old.ReadyReplicas)
		u.NodeAvailableReplicas.ApplyTo(&old.AvailableReplicas)
		u.FullyLabeledReplicas.ApplyTo(&old.FullyLabeledReplicas)
		m.Status.Deprecated = &clusterv1.MachineSetDeprecatedStatus{V1Beta1: &old}
	}
	return nil
}

// anySet reports whether any of the changes sets or clears a value.
func anySet[T any](changes ...contract.Change[T]) bool {
	for _, c := range changes {
		if !c.Keeps() {
			return true
		}
	}
	return false
}
