package autoscaler

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// Kinds that the autoscaler knows. Their plurals are fixed too: machines, machinesets, machinedeployments, machinepools.
const (
	kindMachine           = "Machine"
	kindMachineSet        = "MachineSet"
	kindMachineDeployment = "MachineDeployment"
	kindMachinePool       = "MachinePool"
)

// Fields of scalable objects.
var (
	replicasPath       = contract.At[int64]("spec", "replicas")
	statusReplicasPath = contract.At[int64]("status", "replicas")
	readyReplicasPath  = contract.At[int64]("status", "readyReplicas")
	clusterNamePath    = contract.At[string]("spec", "clusterName")
)

// Standing is what the autoscaler makes of an object. The zero Standing is the worst one.
type Standing uint8

const (
	// StandingBroken is an object that stops the autoscaler for the whole cluster.
	StandingBroken Standing = iota
	// StandingOwned is a MachineSet of a MachineDeployment: never a group of its own.
	StandingOwned
	// StandingUnscaled is an object without a maximum size, or with 0: skipped.
	StandingUnscaled
	// StandingPaused is an object with contract.PausedAnnotation: skipped, and its Nodes belong to no group.
	StandingPaused
	// StandingHidden is an object with 0 replicas whose Nodes are not known: skipped until another component scales it up.
	StandingHidden
	// StandingGroup is a node group.
	StandingGroup
)

// String returns a word for the standing, or "Standing(n)".
func (s Standing) String() string {
	names := [...]string{"broken", "owned", "unscaled", "paused", "hidden", "group"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("Standing(%d)", uint8(s))
}

// StandingOf returns what the autoscaler makes of a MachineSet, MachineDeployment or MachinePool. template is its
// infrastructure template, nil when there is none; it is asked for only at 0 replicas. The error says why an object is
// StandingBroken, and is nil otherwise; it matches ErrAnnotation or contract.ErrWrongType. Which namespaces, clusters and
// labels an autoscaler is limited to is not looked at.
func StandingOf(k Keys, group, template *unstructured.Unstructured) (Standing, error) {
	k = k.orDefault()
	if group.GetKind() == kindMachineSet && ownerName(group, kindMachineDeployment) != "" {
		return StandingOwned, nil
	}
	bounds, err := k.ParseBounds(group.GetAnnotations())
	if err != nil {
		return StandingBroken, describeError(group, err)
	}
	replicas, found, err := replicasPath.Get(group.Object)
	if err != nil {
		return StandingBroken, describeError(group, err)
	}
	_, paused := group.GetAnnotations()[contract.PausedAnnotation]
	switch {
	case !bounds.Scaled():
		return StandingUnscaled, nil
	case paused:
		return StandingPaused, nil
	case !found:
		return StandingBroken, describeError(group, &contract.FieldError{Path: replicasPath.Path(), Want: "integer", Got: "nothing"})
	case replicas == 0 && !scalesFromZero(group, template):
		return StandingHidden, nil
	}
	return StandingGroup, nil
}

// scalesFromZero counts only what the autoscaler can read: one bad quantity among the annotations hides the others.
func scalesFromZero(group, template *unstructured.Unstructured) bool {
	capacity, problems := parseCapacity(group.GetAnnotations())
	for _, p := range problems {
		if p.Effect == noCapacity {
			return false
		}
	}
	if template != nil {
		fromTemplate, _ := TemplateCapacity(template) // what can be read is what the autoscaler sees
		capacity = capacity.Over(fromTemplate)
	}
	return capacity.ScalesFromZero()
}

// ownerName returns the name of the first owner of a kind. Neither its API group nor the controller flag matters.
func ownerName(obj *unstructured.Unstructured, kind string) string {
	for _, owner := range obj.GetOwnerReferences() {
		if owner.Kind == kind && owner.Name != "" {
			return owner.Name
		}
	}
	return ""
}

// clusterName returns spec.clusterName when it is there, and else the label. One of another type hides the label.
func (k Keys) clusterName(obj *unstructured.Unstructured) string {
	if name, found, err := clusterNamePath.Get(obj.Object); found || err != nil {
		return name
	}
	return obj.GetLabels()[k.ClusterName]
}
