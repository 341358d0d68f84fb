package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// machinesOf are the Machines of a set, or of all sets of a deployment.
func (w *World) machinesOf(owner *unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool {
		set := w.controllerOf(m, "MachineSet")
		return set == nil || set.GetUID() != owner.GetUID() && !isOwnedBy(set, owner)
	})
}

func isOwnedBy(obj, owner *unstructured.Unstructured) bool {
	for _, ref := range obj.GetOwnerReferences() {
		if ref.UID == owner.GetUID() {
			return true
		}
	}
	return false
}

// machinesWhere counts the Machines of an owner about which a fact is True.
func machinesWhere(is fact) fact {
	return number(func(w *World, owner *unstructured.Unstructured) int {
		return len(slices.DeleteFunc(w.machinesOf(owner), func(m *unstructured.Unstructured) bool { return is(w, m) != isTrue(true) }))
	})
}

// ofMachines sums up a fact about the Machines of an owner.
func ofMachines(is fact) fact {
	return func(w *World, owner *unstructured.Unstructured) string {
		var all []string
		for _, m := range w.machinesOf(owner) {
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
	if status, _, _ := conditionOf(m, contract.ConditionUpToDate); status != "" {
		return status
	}
	return "Unknown"
}

// compares holds the number of Machines against the desired one.
func compares(is func(have, want int) bool) fact {
	return func(w *World, owner *unstructured.Unstructured) string {
		return isTrue(is(len(w.machinesOf(owner)), int(replicasIn(owner))))
	}
}

func isLess(a, b int) bool { return a < b }

func isMore(a, b int) bool { return a > b }

func ownerTruths() []truth {
	var all []truth
	for _, kind := range []string{"MachineSet", "MachineDeployment"} {
		all = append(all,
			machinesWhere(constant("True")).at(kind, "replicas counts the Machines", "status", "replicas"),
			machinesWhere(readiness).at(kind, "readyReplicas counts the Machines that are ready", "status", "readyReplicas"),
			machinesWhere(availability).at(kind, "availableReplicas counts the Machines that are available", "status", "availableReplicas"),
			machinesWhere(currency).at(kind, "upToDateReplicas counts the Machines that are up to date", "status", "upToDateReplicas"),
			machinesWhere(nodeReady).at(kind, "deprecated readyReplicas counts the Nodes that are ready",
				"status", "deprecated", "v1beta1", "readyReplicas"),
			machinesWhere(nodeReady).at(kind, "deprecated availableReplicas counts the Nodes that are ready for a while",
				"status", "deprecated", "v1beta1", "availableReplicas"),
			compares(isLess).says(kind, contract.ConditionScalingUp, "an owner scales up while Machines are missing"),
			compares(isMore).says(kind, contract.ConditionScalingDown, "an owner scales down while there are more Machines"),
			ofMachines(readiness).says(kind, contract.ConditionMachinesReady, "an owner says whether its Machines are ready"),
			ofMachines(currency).says(kind, contract.ConditionMachinesUpToDate, "an owner says whether its Machines are up to date"),
			constant("False").says(kind, contract.ConditionRemediating, "no Machine is being replaced"),
			constant("").is(kind, "no slot is reserved for what is missing", pendingIn),
		)
	}
	const deployment = "MachineDeployment"
	return append(all,
		constant("Running").at(deployment, "a deployment is Running when nothing scales", "status", "phase"),
		fact(enough).says(deployment, contract.ConditionAvailable, "a deployment is Available with as many Machines as it needs"),
		fact(func(w *World, d *unstructured.Unstructured) string {
			return isTrue(ofMachines(currency)(w, d) != isTrue(true))
		}).
			says(deployment, "RollingOut", "a deployment rolls out while a Machine is not up to date"),
		machinesWhere(currency).at(deployment, "updatedReplicas counts the Machines of the template",
			"status", "deprecated", "v1beta1", "updatedReplicas"),
		number(func(w *World, d *unstructured.Unstructured) int {
			return len(slices.DeleteFunc(w.machinesOf(d), func(m *unstructured.Unstructured) bool { return nodeReady(w, m) == isTrue(true) }))
		}).at(deployment, "unavailableReplicas counts the others", "status", "deprecated", "v1beta1", "unavailableReplicas"),
		fact(fullyLabelled).at("MachineSet", "fullyLabeledReplicas counts the Machines with all labels of the template",
			"status", "deprecated", "v1beta1", "fullyLabeledReplicas"),
	)
}

// enough compares the available Machines of a deployment with those that its strategy wants.
func enough(w *World, d *unstructured.Unstructured) string {
	_, most := w.ownerOf(d).bounds(int(replicasIn(d)))
	n := len(slices.DeleteFunc(w.machinesOf(d), func(m *unstructured.Unstructured) bool { return availability(w, m) != isTrue(true) }))
	return isTrue(n >= int(replicasIn(d))-most)
}

func fullyLabelled(w *World, set *unstructured.Unstructured) string {
	labels, _, _ := unstructured.NestedStringMap(set.Object, "spec", "template", "metadata", "labels")
	n := 0
	for _, m := range w.machinesOf(set) {
		has := true
		for key, value := range labels {
			has = has && m.GetLabels()[key] == value
		}
		if has {
			n++
		}
	}
	return fmt.Sprint(n)
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

// poolTruths are about pools, whose instances the provider has.
func poolTruths() []truth {
	live := number(func(w *World, _ *unstructured.Unstructured) int { return len(w.pool.live()) })
	var all []truth
	for name, path := range map[string][]string{
		"replicas counts the instances":                     {"status", "replicas"},
		"readyReplicas counts the Nodes that are ready":     {"status", "readyReplicas"},
		"availableReplicas counts the Nodes that are ready": {"status", "availableReplicas"},
	} {
		all = append(all, live.at(poolKind, name, path...))
	}
	slices.SortFunc(all, func(a, b truth) int { return cmp.Compare(a.name, b.name) })
	up := func(c string) truth { return constant("True").says(poolKind, c, "a pool is as it should be") }
	down := func(c string) truth { return constant("False").says(poolKind, c, "a pool has nothing to do") }
	current := number(func(w *World, pool *unstructured.Unstructured) int {
		return w.ofVersion(textAt(pool, "spec", "template", "spec", "version"))
	})
	return append(all, current.at(poolKind, "upToDateReplicas counts the Nodes of the version", "status", "upToDateReplicas"),
		constant("Running").at(poolKind, "a pool is Running", "status", "phase"),
		up(contract.ConditionAvailable), up(contract.ConditionMachinesReady),
		up(contract.ConditionInfrastructureReady), up(contract.ConditionBootstrapConfigReady), down(contract.ConditionScalingUp),
		down(contract.ConditionScalingDown), down(contract.ConditionRemediating))
}

// ofVersion counts the instances of the pool whose kubelets have a version; all have an empty one.
func (w *World) ofVersion(version string) int {
	return len(slices.DeleteFunc(w.pool.live(), func(i *poolInstance) bool {
		node := w.object("Node", "", i.name)
		return version != "" && (node == nil || textAt(node, "status", "nodeInfo", "kubeletVersion") != version)
	}))
}

// checkTruths are about health checks.
func checkTruths() []truth {
	total := number(func(w *World, check *unstructured.Unstructured) int { n, _ := w.judged(check); return n })
	healthy := number(func(w *World, check *unstructured.Unstructured) int { _, n := w.judged(check); return n })
	spare := number(func(w *World, check *unstructured.Unstructured) int { return max(0, w.spare(check)) })
	return []truth{
		spare.at(checkKind, "remediationsAllowed is how many more Machines may become unhealthy", "status", "remediationsAllowed"),
		total.at(checkKind, "expectedMachines counts the Machines of a check", "status", "expectedMachines"),
		healthy.at(checkKind, "currentHealthy counts the Machines that are healthy", "status", "currentHealthy"),
		fact(func(w *World, check *unstructured.Unstructured) string {
			return isTrue(w.spare(check) >= 0)
		}).says(checkKind, contract.ConditionRemediationAllowed, "a check may remediate within its limit"),
	}
}

// judged counts the Machines of a check, and those of them that are healthy.
func (w *World) judged(check *unstructured.Unstructured) (total, healthy int) {
	for _, m := range w.Objects("Machine") {
		if selects(check, m) && w.isSelected(m) {
			if total++; healthOf(w, m) == isTrue(true) {
				healthy++
			}
		}
	}
	return total, healthy
}

// spare is how many more Machines may become unhealthy before a check replaces none any more; negative when it replaces none now.
func (w *World) spare(check *unstructured.Unstructured) int {
	least, text := 0, ""
	text, _, _ = unstructured.NestedString(check.Object, "spec", "remediation", "triggerIf", "unhealthyInRange")
	_, _ = fmt.Sscanf(text, "[%d-", &least) // without a range it stays
	total, healthy := w.judged(check)
	if unhealthy := total - healthy; unhealthy >= least {
		return mostIn(check, total) - unhealthy
	}
	return -1
}
