package clusterapi

import (
	"strconv"

	"github.com/machinist-dev/machinist/contract"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func ofMachineDeployment(m *clusterv1.MachineDeployment) replicated {
	return replicated{
		clusterName: &m.Spec.ClusterName, replicas: &m.Spec.Replicas, template: &m.Spec.Template, selector: &m.Spec.Selector,
		order: &m.Spec.Deletion.Order, naming: &m.Spec.MachineNaming, selectorText: &m.Status.Selector, observed: &m.Status.Replicas,
		ready: &m.Status.ReadyReplicas, available: &m.Status.AvailableReplicas, upToDate: &m.Status.UpToDateReplicas,
		conditions: &m.Status.Conditions, generation: &m.Status.ObservedGeneration,
	}
}

func readMachineDeployment(m *clusterv1.MachineDeployment, into *contract.MachineDeploymentState) error {
	before := *into
	*into = contract.MachineDeploymentState{}
	into.Metadata.From(m)
	if err := ofMachineDeployment(m).read(&before.ReplicatedState, &into.ReplicatedState); err != nil {
		return err
	}
	strategy := &m.Spec.Rollout.Strategy
	into.RolloutPaused, into.RolloutType = valueAt(m.Spec.Paused), string(strategy.Type)
	asked := m.Annotations[contract.RolloutTypeAnnotation]
	if asked != "" && (strategy.Type == "" || strategy.Type == contract.RolloutRolling) {
		into.RolloutType = asked
	}
	into.InPlaceOrchestration = m.Annotations[contract.OrchestrationAnnotation]
	into.MaxSurge = contract.SomeAt(strategy.RollingUpdate.MaxSurge)
	into.MaxUnavailable = contract.SomeAt(strategy.RollingUpdate.MaxUnavailable)
	into.RolloutAfter, into.RemediationMaxInFlight = m.Spec.Rollout.After.UTC(), contract.SomeAt(m.Spec.Remediation.MaxInFlight)
	into.Phase = m.Status.Phase
	if d := m.Status.Deprecated; d != nil && d.V1Beta1 != nil {
		into.NodeReadyReplicas, into.NodeAvailableReplicas = contract.Some(d.V1Beta1.ReadyReplicas), contract.Some(d.V1Beta1.AvailableReplicas)
		into.UnavailableReplicas = contract.Some(d.V1Beta1.UnavailableReplicas)
		into.UpdatedReplicas = contract.Some(d.V1Beta1.UpdatedReplicas)
	}
	if text, found := m.Annotations[contract.RollbackToAnnotation]; found {
		revision, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return &contract.FieldError{Path: contract.NewPath("metadata", "annotations", contract.RollbackToAnnotation),
				Want: "integer", Got: "unreadable text"}
		}
		into.RollbackTo = contract.Some(revision)
	}
	return nil
}

func writeMachineDeployment(m *clusterv1.MachineDeployment, u contract.MachineDeploymentUpdate) error {
	annotated(u.MetadataUpdate, contract.RollbackToAnnotation,
		mapped(u.RollbackTo, func(n int64) string { return strconv.FormatInt(n, 10) })).ApplyTo(m)
	ofMachineDeployment(m).write(u.ReplicatedUpdate)
	if paused, set := u.RolloutPaused.Value(); set && paused {
		m.Spec.Paused = new(true)
	} else if set || u.RolloutPaused.Clears() {
		m.Spec.Paused = nil // as in every Machine, absent is false
	}
	setTime(u.RolloutAfter, &m.Spec.Rollout.After)
	u.Phase.ApplyTo(&m.Status.Phase)
	if anySet(u.NodeReadyReplicas, u.NodeAvailableReplicas, u.UnavailableReplicas, u.UpdatedReplicas) {
		old := valueAt(valueAt(m.Status.Deprecated).V1Beta1)
		u.NodeReadyReplicas.ApplyTo(&old.ReadyReplicas)
		u.NodeAvailableReplicas.ApplyTo(&old.AvailableReplicas)
		u.UnavailableReplicas.ApplyTo(&old.UnavailableReplicas)
		u.UpdatedReplicas.ApplyTo(&old.UpdatedReplicas)
		m.Status.Deprecated = &clusterv1.MachineDeploymentDeprecatedStatus{V1Beta1: &old}
	}
	return nil
}
