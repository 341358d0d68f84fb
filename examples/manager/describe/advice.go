package describe

import (
	"maps"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machine/remediation"
)

// Advice for what no reason of a condition shows.
const (
	adviceNoStatus = "check that a manager runs that reconciles the Machine: its log, its --watch-filter and namespaces, and its Lease"
	// The reason Updating has other advice in the condition Updating.
	adviceNotUpToDate = "its owner replaces it in a rollout, see manager rollout status; a kubelet of another version is updated on its Node"
	adviceFailed      = "read the message, mend the cause, and delete the Machine: this failure does not go away by itself"
)

// adviceOf is what to do about a condition with a reason that has no advice of its own, such as one of a provider.
func adviceOf(condition string) string {
	switch condition {
	case contract.ConditionBootstrapConfigReady:
		return "look at the object of spec.bootstrap.configRef and at the log of its provider"
	case contract.ConditionInfrastructureReady:
		return "look at the object of spec.infrastructureRef and at the log of its provider"
	case contract.ConditionNodeReady, machine.ConditionNodeHealthy:
		return "look at the Node's conditions (kubectl describe node), at the instance's console, and at the log of its kubelet"
	case contract.ConditionHealthCheckSucceeded, contract.ConditionOwnerRemediated, contract.ConditionExternallyRemediated:
		return "look at the MachineHealthCheck (kubectl describe machinehealthcheck)"
	case contract.ConditionDeleting:
		return "wait; then look at the manager's log"
	}
	return "wait; it is in progress"
}

// What several reasons have in common.
const (
	adviceInstance = "look at the instance's console and at the log of its kubelet; delete the Machine to replace it"
	adviceCRD      = "install the provider's CustomResourceDefinitions with the label of its contract, or correct the reference"
	adviceAnswers  = "check the API server of the workload cluster and its kubeconfig Secret; nothing is decided meanwhile"
	adviceHook     = "the owner of the hook removes its annotation; remove the annotation in the owner's place only if the owner is gone"
)

// advice is what a person can do, by the reason of a condition.
func advice() map[string]string {
	all := adviceOfStart()
	maps.Copy(all, adviceOfRest())
	return all
}

// adviceOfStart is for reasons of the conditions of a Machine that starts.
func adviceOfStart() map[string]string {
	return map[string]string{
		contract.ReasonPaused:       "remove the annotation cluster.x-k8s.io/paused of the Machine, or spec.paused of its Cluster",
		contract.ReasonDoesNotExist: "create the object, or correct the reference",
		contract.ReasonDeleted:      "delete the Machine: the object that it was made with is gone",
		contract.ReasonInternalError: "look at the manager's log for this Machine; a reference may lack its kind, name or " +
			"API group",
		contract.ReasonInspectionFailed:         adviceAnswers,
		contract.ReasonConnectionDown:           adviceAnswers,
		contract.ReasonInvalidCondition:         "look at the conditions of the object that is referred to: one of them cannot be read",
		contract.ReasonNotReported:              "look at the object that is referred to: its provider gives no reason",
		external.ReasonCRDNotFound:              adviceCRD,
		external.ReasonContractLabelMissing:     adviceCRD,
		external.ReasonVersionNotServed:         adviceCRD,
		external.ReasonContractViolation:        "report it to the provider: a field of the contract has another type",
		external.ReasonCacheNotSynced:           "wait for the first list; if it stays, check the manager's rights with --print-rbac",
		contract.ReasonOwnedByAnother:           "refer to an object of this Machine's own: another Machine owns this one",
		machine.ReasonProviderIDMissing:         "report it to the provider: its object is provisioned and names no instance",
		machine.ReasonInfrastructureNotReported: "check the steps of the reconciler: none reports the infrastructure",
		contract.ReasonDataSecretNameMissing:    "report it to the bootstrap provider: its data is there and no Secret is named",
		contract.ReasonAmbiguousNode:            "delete the Nodes that have this provider ID and no kubelet",
		contract.ReasonNodeClaimed:              "delete one of the Machines that have this provider ID",
		contract.ReasonClusterDoesNotExist:      "create the Cluster of spec.clusterName, or run the manager with --clusters=never",
		machine.ReasonInvalidAnnotation:         "correct the annotation that the message names",
		machine.ReasonNotYetReported:            "wait for the kubelet's first report; then " + adviceInstance,
		machine.ReasonNodeNotReady:              adviceInstance,
		machine.ReasonNodeReadyUnknown:          adviceInstance,
		machine.ReasonNodeNotHealthy:            adviceInstance,
		machine.ReasonNodeHealthUnknown:         adviceInstance,
		machine.ReasonNodeDeleted:               "delete the Machine: its Node was deleted and does not come back by itself",
		machine.ReasonNodeDoesNotExist:          "wait for the instance to join; " + adviceInstance,
	}
}

// adviceOfRest is for a Machine that has started, is unhealthy, or is being deleted.
func adviceOfRest() map[string]string {
	return map[string]string{
		machine.ReasonWaitingForMinReadySeconds:  "wait: the Node has to be ready for spec.minReadySeconds",
		machine.ReasonInPlaceUpdating:            "wait for the updater that the message names",
		machine.ReasonInPlaceUpdateFailed:        "look at the updater that the message names",
		machine.ReasonUpdating:                   "wait for the update of the Machine",
		machine.ReasonWaitingForPreDrainHook:     adviceHook,
		machine.ReasonWaitingForPreTerminateHook: adviceHook,
		machine.ReasonWaitingForVolumeDetach: "look at the VolumeAttachments of the Node; " +
			"the annotation machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach ends the wait",
		contract.ReasonDrainingNode: "make room for the Pods or relax the budgets that the message names; " +
			"the annotation machine.cluster.x-k8s.io/exclude-node-draining gives the drain up",
		contract.ReasonWaitingForInfrastructureDeletion: "look at the infrastructure object's finalizers and at the log of its provider",
		contract.ReasonWaitingForBootstrapDeletion:      "look at the bootstrap object's finalizers and at the log of its provider",
		contract.ReasonDeletingNode:                     "check that the manager may delete Nodes, and that the workload cluster answers",
		contract.ReasonDeletionCompleted:                "look at the finalizers of the Machine: those of other controllers are left",
		healthcheck.ReasonUnhealthyNode:                 adviceInstance,
		healthcheck.ReasonUnhealthyMachine:              adviceInstance,
		healthcheck.ReasonNodeStartupTimeout:            adviceInstance,
		healthcheck.ReasonHasRemediateAnnotation:        "wait for the remediation that an annotation has requested",
		contract.ReasonWaitingForRemediation:            "wait for the Machine's owner to replace it; it may be paused or at its limits",
		contract.ReasonCannotBeRemediated:               "delete the Machine yourself if it may go: its owner does not replace it",
		contract.ReasonRemediationDeferred:              "wait; the owner replaces the Machine when the message's cause is over",
		contract.ReasonMachineDeleting:                  "wait: the Machine is being deleted",
		remediation.ReasonTemplateNotFound:              "create the remediation template, or correct the check's reference",
		remediation.ReasonRequestCreationFailed:         "read the message; check the manager's rights with --remediation-resources",
		remediation.ReasonUnreachable:                   adviceAnswers,
	}
}
