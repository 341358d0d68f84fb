package simulation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// generation is that of an object.
func generation(_ *World, obj *unstructured.Unstructured) string {
	return fmt.Sprint(obj.GetGeneration())
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

// instanceOf is the instance that a Machine has recorded; false where providers report it.
func (w *World) instanceOf(m *unstructured.Unstructured) (cloud.Instance, bool) {
	all, _ := w.cloud.List(w.ctx, cloud.Request{Cluster: textAt(m, "spec", "clusterName")})
	for _, i := range all {
		if sameID(i.ProviderID, providerIDIn(m)) {
			return i, w.provided == nil
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
		return node.GetName()
	}
	return textAt(m, "status", "nodeRef", "name")
}

func nodeUIDOf(w *World, m *unstructured.Unstructured) string {
	if node := w.nodeOf(m); node != nil {
		return string(node.GetUID())
	}
	return unasked
}

func addressesOf(w *World, m *unstructured.Unstructured) string {
	i, runs := w.instanceOf(m)
	switch {
	case !runs:
		return unasked
	case len(i.Addresses) == 0:
		return ""
	}
	var all []any
	for _, a := range i.Addresses {
		all = append(all, map[string]any{"type": a.Type, "address": a.Address})
	}
	return fmt.Sprint(all)
}

func failureDomainOf(w *World, m *unstructured.Unstructured) string {
	if i, runs := w.instanceOf(m); runs {
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
	if status := statusOf(part, contract.ConditionReady); status != "" {
		return status
	}
	return isTrue(textAt(part, "status", "initialization", stage) == "true")
}

func nodeReady(w *World, m *unstructured.Unstructured) string {
	node := w.nodeOf(m)
	switch {
	case node != nil:
		return readinessOf(node)
	case textAt(m, "status", "nodeRef", "name") != "":
		return isTrue(false)
	}
	return string(metav1.ConditionUnknown)
}

func isUnready(w *World, m *unstructured.Unstructured) bool { return nodeReady(w, m) != isTrue(true) }

// healthOf is what a check has to find; without a check, the condition is whatever a check that is gone has left.
func healthOf(w *World, m *unstructured.Unstructured) string {
	check := w.object(checkKind, m.GetNamespace(), CheckName)
	if _, skipped := m.GetAnnotations()[skip]; check == nil || skipped || !selects(check, m) {
		return unasked
	}
	_, marked := m.GetAnnotations()[remediate]
	return isTrue(!marked && nodeReady(w, m) == string(corev1.ConditionTrue))
}

// remediationOf is that of no Machine that a check finds healthy.
func remediationOf(w *World, m *unstructured.Unstructured) string {
	if healthOf(w, m) == isTrue(true) {
		return ""
	}
	return unasked
}

func readiness(w *World, m *unstructured.Unstructured) string {
	return worst(infrastructureReady(w, m), bootstrapReady(w, m), nodeReady(w, m), statusOf(m, contract.ConditionHealthCheckSucceeded))
}

func availability(w *World, m *unstructured.Unstructured) string {
	return isTrue(readiness(w, m) == isTrue(true))
}

// upToDate is whether the template of the deployment is that of the set of a Machine. One without a deployment keeps what it has.
func upToDate(w *World, m *unstructured.Unstructured) string {
	deployment := w.controllerOf(w.controllerOf(m, "MachineSet"), "MachineDeployment")
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

func machineNameOf(w *World, node *unstructured.Unstructured) string {
	if m := w.withID("Machine", providerIDIn(node)); m != nil {
		return m.GetName()
	}
	return unasked
}

// outdatedTaint is the taint of a Node whose Machine is of an old revision.
func outdatedTaint(w *World, node *unstructured.Unstructured) string {
	text := textAt(node, "spec", "taints")
	m := w.withID("Machine", providerIDIn(node))
	if !strings.Contains(text, "outdated-revision") || m != nil && upToDate(w, m) == isTrue(false) {
		return ""
	}
	return text
}
