package contract

import (
	"cmp"
	"slices"
)

// conditionOrder returns the types of conditions in the order in which people see them; all that it does not name stand, by
// name, before the last two. Rule: Cluster API's util/conditions/sort.go, for all its kinds.
func conditionOrder() []string {
	return []string{
		ConditionAvailable, ConditionReady, "UpToDate", "RemoteConnectionProbe", "BootstrapConfigReady", "InfrastructureReady",
		"ControlPlaneInitialized", "ControlPlaneAvailable", "WorkersAvailable", "CertificatesAvailable", "Initialized",
		"EtcdClusterHealthy", "ControlPlaneComponentsHealthy", "NodeHealthy", "NodeReady", "NodeKubeadmLabelsAndTaintsSet",
		"EtcdPodHealthy", "EtcdMemberHealthy", "APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy",
		"HealthCheckSucceeded", "OwnerRemediated", "TopologyReconciled", "Updating", "RollingOut", "Remediating", "ScalingDown",
		"ScalingUp", "MachinesReady", "ControlPlaneMachinesReady", "WorkerMachinesReady", "MachinesUpToDate",
		"ControlPlaneMachinesUpToDate", "WorkerMachinesUpToDate", otherConditions, "Paused", "Deleting",
	}
}

// otherConditions stands in conditionOrder for all types that it does not name.
const otherConditions = ""

// compareConditions orders two types as a list of this shape does. The older shape has Ready first and the rest by name; Nodes
// have no order.
func (s conditionShape) compareConditions(a, b string) int {
	switch s {
	case shapeMetaV1:
		return cmp.Or(cmp.Compare(conditionRank(a), conditionRank(b)), cmp.Compare(a, b))
	case shapeV1Beta1:
		if (a == ConditionReady) != (b == ConditionReady) {
			if a == ConditionReady {
				return -1
			}
			return 1
		}
		return cmp.Compare(a, b)
	default:
		return 0
	}
}

func conditionRank(conditionType string) int {
	order := conditionOrder()
	if at := slices.Index(order, conditionType); at >= 0 {
		return at
	}
	return slices.Index(order, otherConditions)
}

// placeFor returns where in a list a new condition goes: before the first that belongs behind it. What cannot be read stays
// where it is.
func (p conditionPlace) placeFor(conditionType string, items []any) int {
	for i, item := range items {
		values, ok := item.(map[string]any)
		if !ok {
			continue
		}
		if have, ok := values["type"].(string); ok && p.shape.compareConditions(conditionType, have) < 0 {
			return i
		}
	}
	return len(items)
}
