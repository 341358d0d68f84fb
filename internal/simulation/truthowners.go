package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/scale"
)

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
	return number(func(w *World, owner *unstructured.Unstructured) int { return len(w.machinesOf(owner, is)) })
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
	if status := upToDate(w, m); status != unasked {
		return status
	}
	return cmp.Or(statusOf(m, contract.ConditionUpToDate), "Unknown")
}

// compares holds the number of Machines against the desired one.
func compares(is func(have, want int) bool) fact {
	return whether(func(w *World, owner *unstructured.Unstructured) bool {
		return is(len(w.machinesOf(owner, yes)), int(replicasIn(owner)))
	})
}

// hasEnough compares the available Machines of a deployment with those that its strategy wants.
func (w *World) hasEnough(d *unstructured.Unstructured) bool {
	_, most := w.ownerOf(d).bounds(int(replicasIn(d)))
	return len(w.machinesOf(d, availability)) >= int(replicasIn(d))-most
}

func rollsOut(w *World, d *unstructured.Unstructured) bool {
	return ofMachines(currency)(w, d) != isTrue(true)
}

// isLabelled reports whether a Machine has all labels of the template of its set.
func (w *World) isLabelled(m *unstructured.Unstructured) bool {
	labels, _, _ := unstructured.NestedStringMap(w.controllerOf(m, "MachineSet").Object, "spec", "template", "metadata", "labels")
	for key, value := range labels {
		if m.GetLabels()[key] != value {
			return false
		}
	}
	return true
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
	if owner.GetKind() == "MachineDeployment" {
		return "MachineSet"
	}
	return "Machine"
}

// live counts the instances of the pool, which its provider has.
func (w *World) live(*unstructured.Unstructured) int { return len(w.ofPool()) }

// current counts those that have the version of the pool, by their kubelets.
func (w *World) current(pool *unstructured.Unstructured) int {
	return len(slices.DeleteFunc(w.ofPool(), func(i cloud.Instance) bool {
		node := w.nodeOn(i)
		return node == nil || textAt(node, "status", "nodeInfo", "kubeletVersion") != versionOf(pool, "spec", "template")
	}))
}

// judged counts the Machines of a check, and healthy those of them that are healthy.
func (w *World) judged(check *unstructured.Unstructured) int {
	return len(w.selected(check, func(health string) bool { return health != unasked }))
}

func (w *World) healthy(check *unstructured.Unstructured) int {
	return len(w.selected(check, func(health string) bool { return health == isTrue(true) }))
}

func (w *World) selected(check *unstructured.Unstructured, is func(health string) bool) []*unstructured.Unstructured {
	return slices.DeleteFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool {
		return !selects(check, m) || !is(healthOf(w, m))
	})
}

// spare is how many more Machines may become unhealthy before a check replaces none any more; negative when it replaces none now.
func (w *World) spare(check *unstructured.Unstructured) int {
	least, total := 0, w.judged(check)
	_, _ = fmt.Sscanf(textAt(check, "spec", "remediation", "triggerIf", "unhealthyInRange"), "[%d-", &least) // without a range it stays
	if unhealthy := total - w.healthy(check); unhealthy >= least {
		return mostIn(check, total) - unhealthy
	}
	return -1
}
