package autoscaler

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

// InstanceState is what the autoscaler takes a Machine for. The zero InstanceState is "no statement".
type InstanceState uint8

const (
	// InstanceUnknown is a Machine about which the autoscaler makes no statement.
	InstanceUnknown InstanceState = iota
	// InstanceRunning is a Machine with a Node.
	InstanceRunning
	// InstanceCreating is a Machine that has no Node yet, or will never have one.
	InstanceCreating
	// InstanceDeleting is a Machine that is being deleted.
	InstanceDeleting
)

// String returns the state's name in lower case, or "InstanceState(n)".
func (s InstanceState) String() string {
	names := [...]string{"unknown", "running", "creating", "deleting"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("InstanceState(%d)", uint8(s))
}

// Error codes of instances that failed.
const (
	// ProvisioningFailed has the autoscaler hold back with scaling the group up, and delete the instance.
	ProvisioningFailed = "ProvisioningFailed"
	// DeletingFailed is a Machine that failed and is being deleted.
	DeletingFailed = "DeletingFailed"
)

// Prefixes of the IDs that stand for Machines that are not Nodes.
const (
	deletingPrefix = "deleting-machine-"
	failedPrefix   = "failed-machine-"
	pendingPrefix  = "pending-machine-"
)

// Instance is what the autoscaler makes of one Machine of a MachineSet or MachineDeployment.
type Instance struct {
	// ID is the provider ID, or a made-up one ("pending-machine-default_worker-1") that counts as no Node. It is empty when
	// the provider ID is to be taken from the Node named NodeName; with both empty, the autoscaler does not list the Machine.
	ID string
	// NodeName is set when the Machine has a Node and no provider ID.
	NodeName string
	// State says how far the Machine is.
	State InstanceState
	// ErrorCode is ProvisioningFailed, DeletingFailed or empty.
	ErrorCode string
}

// CountsAsNode reports whether the Machine is one of those below which the autoscaler never lowers a group's size, unless it
// picks a Node to remove. Those that wait, failed or are being deleted must not be, or a size that was asked for in vain could
// never be taken back (kubernetes/autoscaler#7976).
func (i Instance) CountsAsNode() bool {
	if i.ID == "" {
		return i.NodeName != ""
	}
	_, madeUp := MachineOf(i.ID)
	return !madeUp
}

// Fields of a Machine that decide about its instance.
var (
	failureMessagePath = contract.At[string]("status", "failureMessage")
	phasePath          = contract.At[string]("status", "phase")
	nodeKindPath       = contract.At[string]("status", "nodeRef", "kind")
	nodeNamePath       = contract.At[string]("status", "nodeRef", "name")
	providerIDPath     = contract.At[string]("spec", "providerID")
)

// InstanceOf derives what the autoscaler makes of a Machine, in its order: failed (status.failureMessage and phase Failed),
// deleting, without status.nodeRef, with spec.providerID, with a Node. Contract v1beta2 has no status.failureMessage, so a
// failed Machine of it is only pending. The error matches contract.ErrWrongType; the autoscaler then lists nothing of the
// group. The Machine is neither changed nor kept.
func InstanceOf(machine *unstructured.Unstructured) (Instance, error) {
	_, hasMessage, err := failureMessagePath.Get(machine.Object)
	if err != nil {
		return Instance{}, describeError(machine, err)
	}
	phase, _, err := phasePath.Get(machine.Object)
	if err != nil {
		return Instance{}, describeError(machine, err)
	}
	_, hasNode, err := read[map[string]any](machine.Object, "object", "status", "nodeRef")
	if err != nil {
		return Instance{}, describeError(machine, err)
	}
	deleting := !machine.GetDeletionTimestamp().IsZero()
	switch {
	case hasMessage && phase == "Failed":
		return failedInstance(machine, deleting, hasNode), nil
	case deleting:
		return Instance{ID: madeUpID(deletingPrefix, machine), State: InstanceDeleting}, nil
	case !hasNode:
		return Instance{ID: madeUpID(pendingPrefix, machine), State: InstanceCreating}, nil
	}
	instance, err := withNode(machine.Object)
	if err != nil {
		return Instance{}, describeError(machine, err)
	}
	return instance, nil
}

func failedInstance(machine *unstructured.Unstructured, deleting, hasNode bool) Instance {
	failed := Instance{ID: madeUpID(failedPrefix, machine)}
	switch {
	case deleting:
		failed.State, failed.ErrorCode = InstanceDeleting, DeletingFailed
	case !hasNode:
		failed.State, failed.ErrorCode = InstanceCreating, ProvisioningFailed
	}
	return failed
}

func withNode(obj map[string]any) (Instance, error) {
	id, _, err := providerIDPath.Get(obj)
	if err != nil || id != "" {
		return Instance{ID: id, State: InstanceRunning}, err
	}
	kind, hasKind, err := nodeKindPath.Get(obj)
	if err != nil || hasKind && kind != "Node" {
		return Instance{}, err
	}
	name, _, err := nodeNamePath.Get(obj)
	if err != nil || name == "" {
		return Instance{}, err
	}
	return Instance{NodeName: name, State: InstanceRunning}, nil
}

func madeUpID(prefix string, machine *unstructured.Unstructured) string {
	return prefix + machine.GetNamespace() + "_" + machine.GetName()
}

// MachineOf returns the Machine that a made-up ID stands for; ok is false for a real provider ID. Nodes with such an ID are
// what the autoscaler passes around for instances that never became Nodes.
func MachineOf(id string) (key types.NamespacedName, ok bool) {
	for _, prefix := range []string{deletingPrefix, failedPrefix, pendingPrefix} {
		if rest, found := strings.CutPrefix(id, prefix); found {
			key.Namespace, key.Name, _ = strings.Cut(rest, "_")
			return key, true
		}
	}
	return key, false
}
