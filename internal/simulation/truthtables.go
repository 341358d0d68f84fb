package simulation

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Kinds of rows. reconciled are those whose status the library writes.
const (
	ofSets     = "MachineSet MachineDeployment"
	ofLiving   = "Machine " + ofSets + " " + poolKind
	reconciled = ofLiving + " " + checkKind
)

// isAmong reports whether an object is of one of some kinds.
func isAmong(kinds string, obj *unstructured.Unstructured) bool {
	return slices.Contains(strings.Fields(kinds), obj.GetKind())
}

// conditionTruths are the statuses of conditions; an empty one is that of no condition. An object has no others than those of its kind.
func conditionTruths() []truth {
	rows := []truth{
		{what: contract.ConditionInfrastructureReady, kinds: "Machine", want: infrastructureReady},
		{what: contract.ConditionBootstrapConfigReady, kinds: "Machine", want: bootstrapReady},
		{what: contract.ConditionNodeReady, kinds: "Machine", want: nodeReady},
		{what: machine.ConditionNodeHealthy, kinds: "Machine", want: nodeReady},
		{what: contract.ConditionHealthCheckSucceeded, kinds: "Machine", want: healthOf},
		{what: contract.ConditionOwnerRemediated, kinds: "Machine", want: remediationOf},
		{what: contract.ConditionReady, kinds: "Machine", want: readiness},
		{what: contract.ConditionAvailable, kinds: "Machine", want: availability},
		{what: contract.ConditionUpToDate, kinds: "Machine", want: upToDate},
		{what: machine.ConditionUpdating, kinds: "Machine", want: no},
		{what: contract.ConditionPaused, kinds: reconciled, want: no},
		{what: contract.ConditionDeleting, kinds: ofLiving, want: no},
		{what: contract.ConditionRemediating, kinds: ofSets + " " + poolKind, want: no},
		{what: contract.ConditionScalingUp, kinds: ofSets, want: compares(func(have, want int) bool { return have < want })},
		{what: contract.ConditionScalingDown, kinds: ofSets, want: compares(func(have, want int) bool { return have > want })},
		{what: contract.ConditionMachinesReady, kinds: ofSets, want: ofMachines(readiness)},
		{what: contract.ConditionMachinesUpToDate, kinds: ofSets, want: ofMachines(currency)},
		{what: contract.ConditionAvailable, kinds: "MachineDeployment", want: whether((*World).hasEnough)},
		{what: "RollingOut", kinds: "MachineDeployment", want: whether(rollsOut)},
		{what: contract.ConditionAvailable, kinds: poolKind, want: yes},
		{what: contract.ConditionMachinesReady, kinds: poolKind, want: yes},
		{what: contract.ConditionMachinesUpToDate, kinds: poolKind, want: constant(unasked)},
		{what: contract.ConditionInfrastructureReady, kinds: poolKind, want: yes},
		{what: contract.ConditionBootstrapConfigReady, kinds: poolKind, want: yes},
		{what: contract.ConditionScalingUp, kinds: poolKind, want: no},
		{what: contract.ConditionScalingDown, kinds: poolKind, want: no},
		{what: contract.ConditionRemediationAllowed, kinds: checkKind, want: whether(func(w *World, check *unstructured.Unstructured) bool {
			return w.spare(check) >= 0
		})},
	}
	for i, t := range rows {
		rows[i].got = func(_ *World, obj *unstructured.Unstructured) string { return statusOf(obj, t.what) }
	}
	return rows
}

// fieldTruths are the fields of objects that follow from the World, by their paths; most are counters.
func fieldTruths() []truth {
	current, live := number((*World).current), number((*World).live)
	const old = "status deprecated v1beta1 "
	return []truth{
		{what: "status observedGeneration", kinds: reconciled, want: generation},
		{what: "status phase", kinds: "Machine", want: phaseOf},
		{what: "status phase", kinds: "MachineDeployment " + poolKind, want: constant("Running")},
		{what: "status nodeRef name", kinds: "Machine", want: nodeNameOf},
		{what: "status addresses", kinds: "Machine", want: addressesOf},
		{what: "status failureDomain", kinds: "Machine", want: failureDomainOf},
		{what: "status deletion", kinds: "Machine", want: none},
		{what: "metadata annotations " + contract.NodeUIDAnnotation, kinds: "Machine", want: nodeUIDOf},
		{what: "metadata annotations cluster.x-k8s.io/machine", kinds: "Node", want: machineNameOf},
		{what: "spec unschedulable", kinds: "Node", want: none},

		{what: "status replicas", kinds: ofSets, want: machinesWhere(yes)},
		{what: "status readyReplicas", kinds: ofSets, want: machinesWhere(readiness)},
		{what: "status availableReplicas", kinds: ofSets, want: machinesWhere(availability)},
		{what: "status upToDateReplicas", kinds: ofSets, want: machinesWhere(currency)},
		{what: old + "readyReplicas", kinds: ofSets, want: machinesWhere(nodeReady)},
		{what: old + "availableReplicas", kinds: ofSets, want: machinesWhere(nodeReady)},
		{what: old + "updatedReplicas", kinds: "MachineDeployment", want: machinesWhere(currency)},
		{what: old + "unavailableReplicas", kinds: "MachineDeployment", want: machinesWhere(whether(isUnready))},
		{what: old + "fullyLabeledReplicas", kinds: "MachineSet", want: machinesWhere(whether((*World).isLabelled))},
		{what: "status replicas", kinds: poolKind, want: live},
		{what: "status readyReplicas", kinds: poolKind, want: live},
		{what: "status availableReplicas", kinds: poolKind, want: live},
		{what: "status upToDateReplicas", kinds: poolKind, want: current},
		{what: "status expectedMachines", kinds: checkKind, want: number((*World).judged)},
		{what: "status currentHealthy", kinds: checkKind, want: number((*World).healthy)},
		{what: "status remediationsAllowed", kinds: checkKind, want: number(func(w *World, check *unstructured.Unstructured) int {
			return max(0, w.spare(check))
		})},
	}
}

// otherTruths are about what is left over.
func otherTruths() []truth {
	return []truth{
		{"an object has conditions of its kind alone", reconciled, none, otherConditions},
		{"a condition that is as wanted has no message", reconciled, none, messagesOfWanted},
		{"a condition that is not as wanted has a message", reconciled, none, silentOfUnwanted},
		{"a Machine of a set that stays has no mark of one that goes", "Machine", none, markIn},
		{"a Machine that lives has no record of its deletion", "Machine", none, annotationsIn(contract.DrainedAnnotation,
			contract.VolumesDetachedAnnotation, contract.PreTerminateStartedAnnotation, machine.NodeDeletionStartedAnnotation)},
		{"a Node of the current revision has no taint of an old one", "Node", none, outdatedTaint},
		{"a Node that stays has no mark of one that leaves", "Node", none, annotationsIn(contract.DrainStartedAnnotation,
			contract.DrainedAnnotation, scale.DeleteAnnotation, "machinist.dev/cordoned-by-pool-since")},
		{"no slot is reserved for what is missing", ofSets, none, pendingIn},
	}
}

// annotationsIn are those of some annotations that an object has.
func annotationsIn(keys ...string) fact {
	return func(_ *World, obj *unstructured.Unstructured) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
			_, found := obj.GetAnnotations()[key]
			return !found
		}), ", ")
	}
}

// conditionsWhere are the conditions of an object that are of a class, each with its message.
func conditionsWhere(obj *unstructured.Unstructured, is func(kind string, asWanted bool, message string) bool) string {
	var all []string
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, one := range conditions {
		kind, _ := one.(map[string]any)["type"].(string)
		if _, _, message := conditionOf(obj, kind); is(kind, isWanted(obj, kind), message) {
			all = append(all, kind+": "+message)
		}
	}
	return strings.Join(all, "; ")
}

// isWanted reports whether a condition has the status that it has when nothing is to be done.
func isWanted(obj *unstructured.Unstructured, kind string) bool {
	return statusOf(obj, kind) == isTrue(!slices.Contains([]string{contract.ConditionDeleting, contract.ConditionPaused, contract.ConditionScalingUp,
		contract.ConditionScalingDown, contract.ConditionRemediating, machine.ConditionUpdating, "RollingOut"}, kind))
}

func otherConditions(_ *World, obj *unstructured.Unstructured) string {
	return conditionsWhere(obj, func(kind string, _ bool, _ string) bool {
		return !slices.ContainsFunc(conditionTruths(), func(t truth) bool {
			return t.what == kind && isAmong(t.kinds, obj)
		})
	})
}

func messagesOfWanted(_ *World, obj *unstructured.Unstructured) string {
	return conditionsWhere(obj, func(_ string, asWanted bool, message string) bool { return asWanted && message != "" })
}

// silentOfUnwanted leaves Available out, which repeats Ready.
func silentOfUnwanted(_ *World, obj *unstructured.Unstructured) string {
	return conditionsWhere(obj, func(kind string, asWanted bool, message string) bool {
		return !asWanted && message == "" && kind != contract.ConditionAvailable
	})
}
