package describe

import (
	"maps"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machine/inframachine"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/machineset/guard"
	"github.com/machinist-dev/machinist/machineset/scale"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// Advice for what no reason of a condition shows.
const (
	adviceNoStatus = "check that a manager runs that reconciles the Machine: its log, its --watch-filter and namespaces, and its Lease"
	// The reason Updating has other advice in the condition Updating.
	adviceNotUpToDate = "its owner replaces it in a rollout, see manager rollout status"
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

// Advice returns what a person can do, by the reason of a condition. The caller may change the map.
func Advice() map[string]string {
	all := adviceOfStart()
	maps.Copy(all, adviceOfRest())
	maps.Copy(all, adviceOfOwners())
	maps.Copy(all, adviceOfOthers())
	return all
}

// adviceOfStart is for reasons of the conditions of a Machine that starts.
func adviceOfStart() map[string]string {
	return map[string]string{
		contract.ReasonClusterChanged: "change spec.clusterName back; for another Cluster, create another object",
		contract.ReasonWritesUndone:   "let one of the two controllers write the fields that the message names",
		contract.ReasonPaused:         "remove the annotation cluster.x-k8s.io/paused of the Machine, or spec.paused of its Cluster",
		contract.ReasonDoesNotExist:   "create the object, or correct the reference",
		contract.ReasonDeleted:        "delete the Machine: the object that it was made with is gone",
		contract.ReasonInternalError: "look at the manager's log for this Machine; a reference may lack its kind, name or " +
			"API group",
		contract.ReasonInspectionFailed:         adviceAnswers,
		contract.ReasonConnectionDown:           adviceAnswers,
		contract.ReasonInvalidCondition:         "look at the conditions of the object that is referred to: one of them cannot be read",
		contract.ReasonNotReported:              "look at the object that is referred to: its provider gives no reason",
		pass.ReasonCRDNotFound:                  adviceCRD,
		pass.ReasonContractLabelMissing:         adviceCRD,
		pass.ReasonVersionNotServed:             adviceCRD,
		pass.ReasonContractViolation:            "report it to the provider: a field of the contract has another type",
		pass.ReasonCacheNotSynced:               "wait for the first list; if it stays, check the manager's rights with --print-rbac",
		contract.ReasonOwnedByAnother:           "refer to an object of this Machine's own: another Machine owns this one",
		machine.ReasonProviderIDMissing:         "report it to the provider: its object is provisioned and names no instance",
		machine.ReasonInfrastructureNotReported: "check the steps of the reconciler: none reports the infrastructure",
		contract.ReasonDataSecretNameMissing:    "report it to the bootstrap provider: its data is there and no Secret is named",
		contract.ReasonAmbiguousNode:            "delete the Nodes that have this provider ID and no kubelet",
		contract.ReasonNodeClaimed:              "delete one of the Machines that have this provider ID",
		contract.ReasonClusterDoesNotExist:      "create the Cluster of spec.clusterName, or run the manager with --clusters=never",
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
		contract.ReasonUpdating:                  "wait for the update of the Machine",
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
		healthcheck.ReasonUnreachable:                   adviceAnswers,
	}
}

// What owners, pools and health checks have in common.
const (
	adviceRestored = "make the missing objects visible, or confirm that they are gone with the annotation " + children.RestoredAnnotation +
		" and the UID of the owner as its value"
	adviceSelector = "correct spec.selector or the labels of spec.template"
	adviceLimit    = "correct the field or annotation that the message names"
)

// adviceOfOwners is for MachineSets and MachineDeployments.
func adviceOfOwners() map[string]string {
	return map[string]string{
		contract.ReasonWaitingForReplicasSet:     "set spec.replicas",
		pass.ReasonTemplateMissing:               "create the template, or correct the reference",
		pass.ReasonTemplateUnread:                "look at the manager's log; check its rights with --print-rbac",
		scale.ReasonFrozen:                       "find out what creates Machines; annotation " + scale.UnfreezeAnnotation + " ends it",
		scale.ReasonOverShooting:                 "wait until surplus Machines are gone; find out what creates them",
		scale.ReasonMachineSetFrozen:             "look at the MachineSet that the message names",
		guard.ReasonAPIServerUnreachable:         adviceAnswers,
		machineset.ReasonCreationDisabled:        "remove the annotation " + scale.DisableCreateAnnotation,
		machineset.ReasonSelectorMismatch:        adviceSelector,
		machineset.ReasonSelectorUnreadable:      adviceSelector,
		machineset.ReasonNaming:                  "correct spec.machineNaming.template",
		machineset.ReasonPreflightFailed:         "wait for the control plane's upgrade; " + scale.SkipPreflightAnnotation + " skips checks",
		machineset.ReasonControlPlaneUnread:      "check the reference of the Cluster to its control plane, and the manager's rights to read it",
		machineset.ReasonMachinesNotShown:        "check that the manager's --watch-filter and namespaces include these Machines",
		machineset.ReasonMachinesNotRestored:     adviceRestored,
		children.ReasonLedgerUnreadable:          "correct or remove the annotation that the message names",
		children.ReasonClaimFailed:               "read the message; a webhook or missing rights may refuse the write",
		children.ReasonMachineDeletionFailed:     "read the message; a webhook or missing rights may refuse the deletion",
		machineset.ReasonDeletionOrderUnreadable: adviceLimit,
		deployment.ReasonStrategyUnreadable:      adviceLimit,
		deployment.ReasonNotAvailable:            "look at what the Machines wait for",
	}
}

// adviceOfOthers is for MachinePools, MachineHealthChecks, instances of a driver and connections.
func adviceOfOthers() map[string]string {
	return map[string]string{
		machinepool.ReasonInstancesHeld: "check the list of the provider; if it is right, annotate the Nodes that the message names with " +
			scale.DeleteAnnotation + ", or delete them",
		healthcheck.ReasonTooManyUnhealthy:      "find the common cause, or raise the limit of the check",
		healthcheck.ReasonLimitUnreadable:       adviceLimit,
		healthcheck.ReasonOutage:                "find the common cause, such as a network or a zone; remediation goes on when it is over",
		healthcheck.ReasonInFlight:              "wait for the replacements that are under way",
		healthcheck.ReasonNoOwner:               "delete the Machine yourself if it may go: nothing replaces it",
		instance.ReasonFailed:                   "read the message and repair the instance, or mend the cause and delete the Machine",
		instance.ReasonGone:                     "delete the Machine: its instance does not come back",
		instance.ReasonStopped:                  "start the instance, or delete the Machine",
		instance.ReasonNoInput:                  "check the class of the Machine, and the Secret with its credentials",
		instance.ReasonInvalid:                  "correct the specification that the driver refuses; the message names the cause",
		inframachine.ReasonWaitingForMachine:    "check the owner reference of the object: its Machine has to name it too",
		inframachine.ReasonWaitingForCluster:    "look at the infrastructure of the Cluster",
		healthcheck.ReasonNodeUnread:            adviceAnswers,
		string(cluster.ReasonNoKubeconfig):      "create the Secret CLUSTER-kubeconfig in the namespace of the Cluster",
		string(cluster.ReasonKubeconfigUnread):  "check the manager's rights to read Secrets",
		string(cluster.ReasonKubeconfigRefused): "correct the kubeconfig: the error names what is unsafe or invalid",
		string(cluster.ReasonUnreachable):       "check the address in the kubeconfig, the network, and the API server of the workload cluster",
		string(cluster.ReasonUnauthorized):      "renew the credentials in the kubeconfig Secret",
		string(cluster.ReasonSetupFailed):       "check the rights of the kubeconfig's user in the workload cluster",
	}
}
