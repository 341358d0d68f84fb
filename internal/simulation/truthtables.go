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
	return []truth{
		{what: contract.ConditionInfrastructureReady, kinds: "Machine", want: infrastructureReady},
		{what: contract.ConditionBootstrapConfigReady, kinds: "Machine", want: bootstrapReady},
		{what: contract.ConditionNodeReady + ", " + machine.ConditionNodeHealthy, kinds: "Machine", want: nodeReady},
		{what: contract.ConditionHealthCheckSucceeded, kinds: "Machine", want: healthOf},
		{what: contract.ConditionOwnerRemediated, kinds: "Machine", want: remediationOf},
		{what: contract.ConditionReady, kinds: "Machine", want: readiness},
		{what: contract.ConditionAvailable, kinds: "Machine", want: availability},
		{what: contract.ConditionUpToDate, kinds: "Machine", want: upToDate},
		{what: contract.ConditionUpdating, kinds: "Machine", want: no},
		{what: contract.ConditionPaused, kinds: reconciled, want: no},
		{what: contract.ConditionContested, kinds: reconciled, want: func(_ *World, obj *unstructured.Unstructured) string {
			return strings.ReplaceAll(statusOf(obj, contract.ConditionContested), isTrue(true), isTrue(false)) // absent before a fight
		}},
		{what: contract.ConditionDeleting, kinds: ofLiving, want: no},
		{what: contract.ConditionRemediating, kinds: ofSets, want: no},
		{what: contract.ConditionScalingUp, kinds: ofSets, want: compares("True", "False", "False")},
		{what: contract.ConditionScalingDown, kinds: ofSets, want: compares("False", "False", "True")},
		{what: contract.ConditionMachinesReady, kinds: ofSets, want: ofMachines(readiness)},
		{what: contract.ConditionMachinesUpToDate, kinds: ofSets, want: ofMachines(currency)},
		{what: contract.ConditionAvailable, kinds: "MachineDeployment", want: hasEnough},
		{what: "RollingOut", kinds: "MachineDeployment", want: rollsOut},
		{what: "Available, MachinesReady, InfrastructureReady, BootstrapConfigReady", kinds: poolKind, want: yes},
		{what: contract.ConditionMachinesUpToDate, kinds: poolKind, want: constant(unchecked)},
		{what: contract.ConditionScalingUp + ", " + contract.ConditionScalingDown, kinds: poolKind, want: no},
		{what: contract.ConditionRemediationAllowed, kinds: checkKind, want: ofCheck(func(_, _, spare int) any { return isTrue(spare >= 0) })},
	}
}

// fieldTruths are the fields of objects that follow from the World, by their paths; most are counters.
func fieldTruths() []truth {
	const old = "status deprecated v1beta1 "
	return []truth{
		{what: "status observedGeneration", kinds: reconciled, want: generation},
		{what: "status phase", kinds: "Machine", want: phaseOf},
		{what: "status phase", kinds: "MachineDeployment", want: compares("ScalingUp", "Running", "ScalingDown")},
		{what: "status phase", kinds: poolKind, want: constant("Running")},
		{what: "status nodeRef name", kinds: "Machine", want: nodeNameOf},
		{what: "status addresses", kinds: "Machine", want: reported(unchecked, addressesIn)},
		{what: "status failureDomain", kinds: "Machine", want: reported(unchecked, domainIn)},
		{what: "status deletion", kinds: "Machine", want: none},
		{what: "metadata annotations " + contract.NodeUIDAnnotation, kinds: "Machine", want: nodeUIDOf},
		{what: "metadata annotations cluster.x-k8s.io/machine", kinds: "Node", want: machineNameOf},
		{what: "spec unschedulable", kinds: "Node", want: none},

		{what: "status replicas", kinds: ofSets, want: machinesWhere(yes)},
		{what: "status readyReplicas, status availableReplicas", kinds: ofSets, want: machinesWhere(readiness)},
		{what: "status upToDateReplicas", kinds: ofSets, want: machinesWhere(currency)},
		{what: old + "readyReplicas, " + old + "availableReplicas", kinds: ofSets, want: machinesWhere(nodeReady)},
		{what: old + "updatedReplicas", kinds: "MachineDeployment", want: machinesWhere(currency)},
		{what: old + "unavailableReplicas", kinds: "MachineDeployment", want: machinesWhere(isUnready)},
		{what: old + "fullyLabeledReplicas", kinds: "MachineSet", want: machinesWhere(isLabelled)},
		{what: "status replicas, status readyReplicas, status availableReplicas", kinds: poolKind, want: live},
		{what: "status upToDateReplicas", kinds: poolKind, want: current},
		{what: "status expectedMachines", kinds: checkKind, want: ofCheck(func(judged, _, _ int) any { return judged })},
		{what: "status currentHealthy", kinds: checkKind, want: ofCheck(func(_, healthy, _ int) any { return healthy })},
		{what: "status remediationsAllowed", kinds: checkKind, want: ofCheck(func(_, _, spare int) any { return max(0, spare) })},
	}
}

// otherTruths are about what is left over.
func otherTruths() []truth {
	return []truth{
		{"an object has conditions of its kind alone", reconciled, none, conditionsWhere(isOther)},
		{"a condition that is as wanted has no message", reconciled, none, conditionsWhere(isChatty)},
		{"a condition that is not as wanted has a message", reconciled, none, conditionsWhere(isSilent)},
		{"a Machine of a set that stays has no mark of one that goes", "Machine", none, markIn},
		{"a Machine that lives has no record of its deletion", "Machine", none, annotationsIn(contract.DeletionAnnotation)},
		{"a Node of the current revision has no taint of an old one", "Node", none, outdatedTaint},
		{"a Node that stays has no mark of one that leaves", "Node", none, annotationsIn(contract.DrainStartedAnnotation,
			contract.DrainedAnnotation, scale.DeleteAnnotation)},
		{"no slot is reserved for what is missing", ofSets, none, pendingIn},
	}
}

// annotationsIn are those of some annotations that an object has.
func annotationsIn(keys ...string) fact {
	return func(_ *World, obj *unstructured.Unstructured) string {
		return strings.Join(slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !has(obj, key) }), ", ")
	}
}

// conditionsWhere are the conditions of an object that are of a class, each with its message.
func conditionsWhere(is func(obj *unstructured.Unstructured, kind, message string) bool) fact {
	return func(_ *World, obj *unstructured.Unstructured) string {
		var all []string
		for _, c := range storedConditions(obj) {
			kind, _ := c["type"].(string)
			if _, _, message := conditionOf(obj, kind); is(obj, kind, message) {
				all = append(all, kind+": "+message)
			}
		}
		return strings.Join(all, "; ")
	}
}

// isWanted reports whether a condition has the status that it has when nothing is to be done.
func isWanted(obj *unstructured.Unstructured, kind string) bool {
	return statusOf(obj, kind) == isTrue(!slices.Contains([]string{
		contract.ConditionDeleting, contract.ConditionPaused, contract.ConditionRemediating, contract.ConditionScalingUp,
		contract.ConditionScalingDown, contract.ConditionContested, contract.ConditionUpdating, "RollingOut",
	}, kind))
}

// isOther reports whether a condition is not one of the kind of an object.
func isOther(obj *unstructured.Unstructured, kind, _ string) bool {
	return !slices.ContainsFunc(conditionTruths(), func(t truth) bool {
		return slices.Contains(t.whats(), kind) && isAmong(t.kinds, obj)
	})
}

func isChatty(obj *unstructured.Unstructured, kind, message string) bool {
	return isWanted(obj, kind) && message != ""
}

// isSilent leaves Available out, which repeats Ready.
func isSilent(obj *unstructured.Unstructured, kind, message string) bool {
	return !isWanted(obj, kind) && message == "" && kind != contract.ConditionAvailable
}
