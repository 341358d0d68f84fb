package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

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
	return annotationsIn(contract.InPlaceAnnotation)(w, m)
}

// reported is a fact about the instance that a Machine has recorded, where no provider reports it.
func reported(otherwise string, of func(cloud.Instance) string) fact {
	return func(w *World, m *unstructured.Unstructured) string {
		all, _ := w.cloud.List(w.ctx, cloud.Request{Cluster: textAt(m, "spec", "clusterName")})
		i := slices.IndexFunc(all, func(i cloud.Instance) bool {
			return sameID(i.ProviderID, providerIDIn(m)) && !w.habits.of(i.Token).lied // that one is never found again
		})
		if i < 0 || w.provided != nil {
			return otherwise
		}
		return of(all[i])
	}
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
	return unchecked
}

func addressesIn(i cloud.Instance) string {
	if len(i.Addresses) == 0 {
		return ""
	}
	var all []any
	for _, a := range i.Addresses {
		all = append(all, map[string]any{"type": a.Type, "address": a.Address})
	}
	return fmt.Sprint(all)
}

func domainIn(i cloud.Instance) string { return i.FailureDomain }

// infrastructureReady is what the cloud reports of the instance, or the infrastructure object of it.
func infrastructureReady(w *World, m *unstructured.Unstructured) string {
	if w.provided != nil {
		return w.readyOfPart(m, partGVK().Kind, "provisioned", "spec", "infrastructureRef", "name")
	}
	return reported(no(w, m), func(i cloud.Instance) string { return isTrue(i.State == cloud.Running) })(w, m)
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
	return cmp.Or(statusOf(part, contract.ConditionReady), isTrue(textAt(part, "status", "initialization", stage) == "true"))
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

func isUnready(w *World, m *unstructured.Unstructured) string {
	return isTrue(nodeReady(w, m) != isTrue(true))
}

// healthOf is what a check has to find; without a check, the condition is whatever a check that is gone has left.
func healthOf(w *World, m *unstructured.Unstructured) string {
	if !w.isChecked(m) {
		return unchecked
	}
	return isTrue(!has(m, remediate) && nodeReady(w, m) == isTrue(true))
}

// remediationOf is that of no Machine that a check finds healthy.
func remediationOf(w *World, m *unstructured.Unstructured) string {
	if healthOf(w, m) == isTrue(true) {
		return ""
	}
	return unchecked
}

// readiness is that of a Machine; one in deletion is not ready after a quarter of an hour.
func readiness(w *World, m *unstructured.Unstructured) string {
	if at := m.GetDeletionTimestamp(); at != nil && w.Now().Sub(at.Time) > 15*time.Minute {
		return isTrue(false)
	}
	return worst(infrastructureReady(w, m), bootstrapReady(w, m), nodeReady(w, m), statusOf(m, contract.ConditionHealthCheckSucceeded))
}

func availability(w *World, m *unstructured.Unstructured) string {
	return isTrue(readiness(w, m) == isTrue(true))
}

// upToDate is whether the template of the deployment is that of the set of a Machine. One without a deployment, or of one that is paused,
// keeps what it has.
func upToDate(w *World, m *unstructured.Unstructured) string {
	deployment := w.controllerOf(w.controllerOf(m, "MachineSet"), "MachineDeployment")
	if deployment == nil || w.ownerOf(m) == nil || has(deployment, contract.PausedAnnotation) {
		return unchecked
	}
	return isTrue(!w.ownerOf(m).isOutdated(m))
}

// controllerOf is the object that controls another one, if it has a kind; nil without.
func (w *World) controllerOf(obj *unstructured.Unstructured, kind string) *unstructured.Unstructured {
	if obj == nil || metav1.GetControllerOfNoCopy(obj) == nil {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(obj)
	controller := w.object(kind, obj.GetNamespace(), owner.Name)
	if controller == nil || controller.GetUID() != owner.UID {
		return nil
	}
	return controller
}

func machineNameOf(w *World, node *unstructured.Unstructured) string {
	if m := w.withID("Machine", providerIDIn(node)); m != nil {
		return m.GetName()
	}
	return unchecked
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

// machinesOf are the Machines of a set, or of all sets of a deployment, about which a fact is True.
func (w *World) machinesOf(owner *unstructured.Unstructured, is fact) []*unstructured.Unstructured {
	return slices.DeleteFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool {
		set := w.controllerOf(m, "MachineSet")
		owned := set != nil && (set.GetUID() == owner.GetUID() || slices.ContainsFunc(set.GetOwnerReferences(),
			func(ref metav1.OwnerReference) bool { return ref.UID == owner.GetUID() }))
		return !owned || is(w, m) != isTrue(true)
	})
}

// machinesWhere counts the Machines of an owner about which a fact is True.
func machinesWhere(is fact) fact {
	return func(w *World, owner *unstructured.Unstructured) string {
		return fmt.Sprint(len(w.machinesOf(owner, is)))
	}
}

// ofMachines sums up a fact about the Machines of an owner.
func ofMachines(is fact) fact {
	return func(w *World, owner *unstructured.Unstructured) string {
		var all []string
		for _, m := range w.machinesOf(owner, yes) {
			all = append(all, is(w, m))
		}
		return worst(all...)
	}
}

// currency is whether a Machine is up to date; one without a deployment has the condition or does not.
func currency(w *World, m *unstructured.Unstructured) string {
	if status := upToDate(w, m); status != unchecked {
		return status
	}
	return cmp.Or(statusOf(m, contract.ConditionUpToDate), "Unknown")
}

// compares returns what follows from the number of Machines, beside the desired one.
func compares(fewer, asMany, more string) fact {
	return func(w *World, owner *unstructured.Unstructured) string {
		return []string{fewer, asMany, more}[1+cmp.Compare(len(w.machinesOf(owner, yes)), int(replicasIn(owner)))]
	}
}

// hasEnough compares the available Machines of a deployment with those that its strategy requires.
func hasEnough(w *World, d *unstructured.Unstructured) string {
	_, most := w.ownerOf(d).bounds(int(replicasIn(d)))
	return isTrue(len(w.machinesOf(d, readiness)) >= int(replicasIn(d))-most)
}

func rollsOut(w *World, d *unstructured.Unstructured) string {
	return isTrue(ofMachines(currency)(w, d) != isTrue(true))
}

// isLabelled is whether a Machine has all labels of the template of its set.
func isLabelled(w *World, m *unstructured.Unstructured) string {
	wanted, _, _ := unstructured.NestedStringMap(w.controllerOf(m, "MachineSet").Object, "spec", "template", "metadata", "labels")
	return isTrue(labels.SelectorFromSet(wanted).Matches(labels.Set(m.GetLabels())))
}

// pendingIn are the names that the ledger of an owner reserves for what does not exist. What exists leaves it with the next creation.
func pendingIn(w *World, owner *unstructured.Unstructured) string {
	text, found := owner.GetAnnotations()[scale.LedgerAnnotation]
	if !found {
		return ""
	}
	ledger, err := scale.ParseLedger(text)
	if err != nil {
		return err.Error()
	}
	var missing []string
	for _, e := range ledger.Pending {
		if w.object(childKind(owner), owner.GetNamespace(), e.Name) == nil {
			missing = append(missing, e.Name)
		}
	}
	return strings.Join(missing, ", ")
}

func childKind(owner *unstructured.Unstructured) string {
	return map[string]string{"MachineDeployment": "MachineSet", "MachineSet": "Machine"}[owner.GetKind()]
}

// live counts the instances of the pool, which its provider has.
func live(w *World, _ *unstructured.Unstructured) string { return fmt.Sprint(len(w.ofPool())) }

// current counts those that have the version of the pool, by their kubelets.
func current(w *World, pool *unstructured.Unstructured) string {
	return fmt.Sprint(len(slices.DeleteFunc(w.ofPool(), func(i cloud.Instance) bool {
		node := w.nodeOn(i)
		return node == nil || textAt(node, "status", "nodeInfo", "kubeletVersion") != versionOf(pool, "spec", "template")
	})))
}

// ofCheck is a fact about how many Machines a check judges, how many of them are healthy, and how many more may become unhealthy before it
// replaces none any more; that is negative when it replaces none now.
func ofCheck(of func(judged, healthy, spare int) any) fact {
	return func(w *World, check *unstructured.Unstructured) string {
		healths := map[string]int{}
		for _, m := range w.Objects("Machine") {
			if selects(check, m) {
				healths[healthOf(w, m)]++
			}
		}
		least, spare, healthy, unhealthy := 0, -1, healths[isTrue(true)], healths[isTrue(false)]
		_, _ = fmt.Sscanf(textAt(check, "spec", "remediation", "triggerIf", "unhealthyInRange"), "[%d-", &least) // without a range it stays
		if unhealthy >= least {
			spare = mostIn(check, healthy+unhealthy) - unhealthy
		}
		return fmt.Sprint(of(healthy+unhealthy, healthy, spare))
	}
}
