package simulation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func machineTruths() []truth {
	const kind = "Machine"
	return []truth{
		fact(phaseOf).at(kind, "the phase of a Machine is how far it has come", "status", "phase"),
		fact(nodeNameOf).at(kind, "a Machine has the Node of its instance", "status", "nodeRef", "name"),
		fact(nodeUIDOf).at(kind, "a Machine has the UID of its Node", "metadata", "annotations", contract.NodeUIDAnnotation),
		fact(addressesOf).is(kind, "a Machine has the addresses of its instance", addressesIn),
		fact(domainIn).at(kind, "a Machine has the failure domain of its instance", "status", "failureDomain"),
		fact(infrastructureReady).says(kind, contract.ConditionInfrastructureReady, "a Machine says whether its instance runs"),
		fact(bootstrapReady).says(kind, contract.ConditionBootstrapConfigReady, "a Machine says whether its bootstrap data is there"),
		fact(nodeReady).says(kind, contract.ConditionNodeReady, "a Machine says whether its Node is ready"),
		fact(nodeReady).says(kind, machine.ConditionNodeHealthy, "a Machine says whether its Node is healthy"),
		fact(healthOf).says(kind, contract.ConditionHealthCheckSucceeded, "a Machine says whether its Node passes its check"),
		fact(readiness).says(kind, contract.ConditionReady, "a Machine is Ready when everything of it is"),
		fact(availability).says(kind, contract.ConditionAvailable, "a Machine is Available when it has been Ready for a while"),
		fact(upToDate).says(kind, contract.ConditionUpToDate, "a Machine is UpToDate when it is of the template of its deployment"),
		constant("False").says(kind, machine.ConditionUpdating, "no Machine is being changed in place"),
		constant("").is(kind, "a Machine that lives has no record of its deletion", annotationsIn(contract.DrainedAnnotation,
			contract.VolumesDetachedAnnotation, contract.PreTerminateStartedAnnotation, machine.NodeDeletionStartedAnnotation)),
		constant("").at(kind, "a Machine that lives has no stages of a deletion", "status", "deletion"),
		constant("").is(kind, "a Machine of a set that stays has no mark of one that goes", markIn),
	}
}

// markIn is the mark of a deployment, or that of an update in place. Marks of others are theirs, and nothing looks after a Machine that was
// orphaned.
func markIn(w *World, m *unstructured.Unstructured) string {
	mark := m.GetAnnotations()[scale.DeleteAnnotation]
	switch {
	case w.controllerOf(m, "MachineSet") == nil:
		return ""
	case strings.HasPrefix(mark, "MachineDeployment/"):
		return mark
	}
	return annotationsIn(contract.InPlaceStateAnnotation, contract.InPlaceSetAnnotation)(w, m)
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

// instanceOf is the instance that a Machine has recorded.
func (w *World) instanceOf(m *unstructured.Unstructured) (cloud.Instance, bool) {
	all, _ := w.cloud.List(w.ctx, cloud.Request{Cluster: textAt(m, "spec", "clusterName")})
	for _, i := range all {
		if sameID(i.ProviderID, providerIDIn(m)) {
			return i, true
		}
	}
	return cloud.Instance{}, false
}

func phaseOf(w *World, m *unstructured.Unstructured) string {
	provisioned := textAt(m, "status", "initialization", "infrastructureProvisioned") == "true"
	switch {
	case m.GetDeletionTimestamp() != nil: // a budget that is never met may hold its drain
		return "Deleting"
	case nodeNameOf(w, m) != "" && provisioned:
		return "Running"
	case providerIDIn(m) != "", provisioned:
		return "Provisioned"
	case textAt(m, "spec", "bootstrap", "dataSecretName") != "":
		return "Provisioning"
	}
	return "Pending"
}

// nodeNameOf stays when the Node is gone.
func nodeNameOf(w *World, m *unstructured.Unstructured) string {
	if node := w.nodeOf(m); node != nil {
		return node.Name
	}
	return textAt(m, "status", "nodeRef", "name")
}

func nodeUIDOf(w *World, m *unstructured.Unstructured) string {
	if node := w.nodeOf(m); node != nil {
		return string(node.UID)
	}
	return unasked
}

func addressesOf(w *World, m *unstructured.Unstructured) string {
	i, runs := w.instanceOf(m)
	if !runs || w.provided != nil {
		return unasked
	}
	var all []string
	for _, a := range i.Addresses {
		all = append(all, a.Type+" "+a.Address)
	}
	return strings.Join(all, ", ")
}

func addressesIn(_ *World, m *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(m.Object, "status", "addresses")
	var all []string
	for _, one := range list {
		a, _ := one.(map[string]any)
		all = append(all, a["type"].(string)+" "+a["address"].(string)) //nolint:forcetypeassert // the schema says so
	}
	return strings.Join(all, ", ")
}

func domainIn(w *World, m *unstructured.Unstructured) string {
	if i, runs := w.instanceOf(m); runs && w.provided == nil {
		return i.FailureDomain
	}
	return unasked
}

// infrastructureReady is what the cloud says of the instance, or the infrastructure object of it.
func infrastructureReady(w *World, m *unstructured.Unstructured) string {
	if w.provided != nil {
		return w.readyOfPart(m, partGVK().Kind, "provisioned", "spec", "infrastructureRef", "name")
	}
	i, found := w.instanceOf(m)
	return isTrue(found && i.State == cloud.Running)
}

func bootstrapReady(w *World, m *unstructured.Unstructured) string {
	if w.provided == nil {
		return "" // the steps of the Driver have none
	}
	if textAt(m, "spec", "bootstrap", "configRef", "name") == "" {
		_, named, _ := unstructured.NestedString(m.Object, "spec", "bootstrap", "dataSecretName") // that of a pool may have no name
		return isTrue(named)
	}
	return w.readyOfPart(m, configGVK().Kind, "dataSecretCreated", "spec", "bootstrap", "configRef", "name")
}

// readyOfPart is the condition Ready of an object to which a Machine refers, or the stage that it has reached without that condition.
func (w *World) readyOfPart(m *unstructured.Unstructured, kind, stage string, path ...string) string {
	part := w.object(kind, m.GetNamespace(), textAt(m, path...))
	if part == nil {
		return isTrue(false)
	}
	if status, _, _ := conditionOf(part, contract.ConditionReady); status != "" {
		return status
	}
	return isTrue(textAt(part, "status", "initialization", stage) == "true")
}

func nodeReady(w *World, m *unstructured.Unstructured) string {
	node := w.nodeOf(m)
	switch {
	case node != nil:
		return string(readyOf(node).Status)
	case textAt(m, "status", "nodeRef", "name") != "":
		return isTrue(false)
	}
	return string(metav1.ConditionUnknown)
}

// healthOf is what a check has to find; without a check, the condition is whatever a check that is gone has left.
func healthOf(w *World, m *unstructured.Unstructured) string {
	if !w.isSelected(m) {
		return unasked
	}
	_, marked := m.GetAnnotations()[remediate]
	return isTrue(!marked && nodeReady(w, m) == string(corev1.ConditionTrue))
}

// isSelected reports whether a check judges a Machine.
func (w *World) isSelected(m *unstructured.Unstructured) bool {
	check := w.object(checkKind, m.GetNamespace(), CheckName)
	_, skipped := m.GetAnnotations()[skip]
	return check != nil && !skipped && selects(check, m)
}

func readiness(w *World, m *unstructured.Unstructured) string {
	health, _, _ := conditionOf(m, contract.ConditionHealthCheckSucceeded)
	return worst(infrastructureReady(w, m), bootstrapReady(w, m), nodeReady(w, m), health)
}

func availability(w *World, m *unstructured.Unstructured) string {
	return isTrue(readiness(w, m) == isTrue(true))
}

// upToDate is whether the template of the deployment is that of the set of a Machine. One without a deployment keeps what it has.
func upToDate(w *World, m *unstructured.Unstructured) string {
	set := w.controllerOf(m, "MachineSet")
	deployment := w.controllerOf(set, "MachineDeployment")
	if deployment == nil || w.ownerOf(m) == nil {
		return unasked
	}
	return isTrue(!w.ownerOf(m).isOutdated(m))
}

// controllerOf is the object that controls another one, if it has a kind; nil without.
func (w *World) controllerOf(obj *unstructured.Unstructured, kind string) *unstructured.Unstructured {
	if obj == nil {
		return nil
	}
	owner := metav1.GetControllerOf(obj)
	if owner == nil || owner.Kind != kind {
		return nil
	}
	if controller := w.object(kind, obj.GetNamespace(), owner.Name); controller != nil && controller.GetUID() == owner.UID {
		return controller
	}
	return nil
}

// nodeTruths are about Nodes whose Machines live.
func nodeTruths() []truth {
	machineOf := func(w *World, node *unstructured.Unstructured) *unstructured.Unstructured {
		for _, m := range w.Objects("Machine") {
			if sameID(providerIDIn(m), providerIDIn(node)) {
				return m
			}
		}
		return nil
	}
	return []truth{
		fact(func(w *World, node *unstructured.Unstructured) string {
			if m := machineOf(w, node); m != nil {
				return m.GetName()
			}
			return unasked
		}).at("Node", "a Node names its Machine", "metadata", "annotations", "cluster.x-k8s.io/machine"),
		constant("").at("Node", "a Node that stays is not cordoned", "spec", "unschedulable"),
		constant("").is("Node", "a Node of the current revision has no taint of an old one", outdatedTaint),
		constant("").is("Node", "a Node that stays has no mark of one that leaves", annotationsIn(contract.DrainStartedAnnotation,
			contract.DrainedAnnotation, scale.DeleteAnnotation, "machinist.dev/cordoned-by-pool-since")),
	}
}

// outdatedTaint is the taint of a Node whose Machine is of an old revision.
func outdatedTaint(w *World, node *unstructured.Unstructured) string {
	text := textAt(node, "spec", "taints")
	for _, m := range w.Objects("Machine") {
		if sameID(providerIDIn(m), providerIDIn(node)) && upToDate(w, m) == isTrue(false) || !strings.Contains(text, "outdated-revision") {
			return ""
		}
	}
	return text
}
