package simulation

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// healthInvariants are those of histories with health checks: each is about a kind of writes, in passes over a kind of objects or in all.
func healthInvariants() []Invariant {
	of := func(kind string, concerns func(Write) bool, wrong func(*World, Write, *pass) string, name string) Invariant {
		return Invariant{Name: name, AfterWrite: func(w *World, e Write) error {
			if w.health == nil || w.acting == nil || !concerns(e) {
				return nil
			}
			b := &w.health.guards[w.acting].pass
			if kind != "" && (b.kind != kind || b.shown == nil) {
				return nil
			}
			if text := wrong(w, e, b); text != "" {
				return fmt.Errorf("%s %s", e.After.GetName(), text)
			}
			return nil
		}}
	}
	return []Invariant{
		of(checkKind, marks, sparesHealthy, "no Machine is marked whose Node was there and ready during the whole pass"),
		of(checkKind, marks, awaitsTimeout, "no Machine is marked before its Node was unhealthy for as long as its check requires"),
		of(checkKind, marks, closedHolds, "no Machine is marked while the API server does not answer"),
		of(checkKind, marks, keepsLimit, "never more Machines than its limit are in remediation, or gone without a healthy one in their place"),
		of(checkKind, marks, outageStays, "no Machine of an outage is marked"),
		of(checkKind, marks, remembersMarks, "the ledger of a check has a Machine before it is marked"),
		of(checkKind, marks, honoursWishes, "no Machine is marked that is skipped, paused or elsewhere, and none by a paused check"),
		of(checkKind, becomesHealthy, namesHealthy, "no Machine becomes healthy whose Node has not reported"),
		of("", replaces, sparesRecovered, "no Machine is replaced that its check has found healthy again"),
		of("", replaces, remediationKept, "remediations of a deployment leave as many Machines available as its strategy requires"),
		of("MachineSet", creates, frozenHolds, "a set that is frozen creates nothing"),
		of("MachineSet", creates, closedHolds, "no set creates anything while the API server does not answer"),
		of("", freezes, freezesSurplus, "a set is frozen only with more Machines than it may have"),
	}
}

// because is what is wrong, if it is.
func because(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// turns reports whether a condition of a Machine gets a status.
func turns(e Write, condition, status string) bool {
	return e.Before != nil && !e.Removed && e.After.GetKind() == "Machine" &&
		statusOf(e.Before, condition) != status && statusOf(e.After, condition) == status
}

// marks reports whether the remediation of a Machine is requested.
func marks(e Write) bool { return turns(e, contract.ConditionOwnerRemediated, "False") }

func becomesHealthy(e Write) bool { return turns(e, contract.ConditionHealthCheckSucceeded, "True") }

// creates reports whether a set creates a Machine.
func creates(e Write) bool {
	return e.Before == nil && e.After.GetKind() == "Machine" && ownedBySet(e.After)
}

// replaces reports whether a Machine is deleted because a check has marked it.
func replaces(e Write) bool {
	is := contract.ConditionOwnerRemediated
	return e.Before != nil && e.After.GetKind() == "Machine" && isDeletion(e) &&
		statusOf(e.Before, is) == "False" && reasonOf(e.Before, is) == contract.ReasonMachineDeleting
}

// isReplaced reports whether a process deletes a Machine because a check has marked it.
func isReplaced(w *World, e Write) bool { return w.health != nil && w.acting != nil && replaces(e) }

// freezes reports whether a set is frozen because of its number of Machines.
func freezes(e Write) bool {
	return e.Before != nil && e.After.GetKind() == "MachineSet" && !isFrozen(e.Before) &&
		e.After.GetLabels()[scale.FreezeLabel] == scale.ReasonOverShooting
}

// versions are those of the check that a pass may have decided by: what was shown when it began, what is now, and what is stored.
func (b *pass) versions() []*unstructured.Unstructured {
	key := client.ObjectKeyFromObject(b.shown)
	all := []*unstructured.Unstructured{b.shown, b.process.view.shown(checkKind)[key], b.process.world.objects[checkKind][key]}
	return slices.DeleteFunc(all, func(obj *unstructured.Unstructured) bool { return obj == nil })
}

// nodeDuring returns the Node of a Machine if it was as it is during the whole pass; nil for another one.
func (b *pass) nodeDuring(m *unstructured.Unstructured) *unstructured.Unstructured {
	if node := recordedNode(b.process.world.objects["Node"], m); node != nil {
		if order, err := resourceversion.CompareResourceVersion(node.GetResourceVersion(), b.version); err == nil && order <= 0 {
			return node
		}
	}
	return nil
}

func sparesHealthy(_ *World, e Write, b *pass) string {
	reason, name := reasonOf(e.After, contract.ConditionHealthCheckSucceeded), textAt(e.Before, "status", "nodeRef", "name")
	switch node := b.nodeDuring(e.Before); {
	case reason == healthcheck.ReasonNodeStartupTimeout && name != "":
		return "is marked because it has no Node, and has Node " + name
	case reason == healthcheck.ReasonNodeDeleted && isReady(node):
		return "is marked because its Node was deleted, and has Node " + name
	case reason == healthcheck.ReasonUnhealthyNode && isReady(node):
		return "is marked, and its Node is ready"
	}
	return ""
}

// awaitsTimeout is also about a Node that a narrowed cache has taken for deleted: a Machine is marked when the API server has that as
// unhealthy for long enough.
func awaitsTimeout(_ *World, e Write, b *pass) string {
	node, reason := b.nodeDuring(e.Before), reasonOf(e.After, contract.ConditionHealthCheckSucceeded)
	if reason != healthcheck.ReasonUnhealthyNode && reason != healthcheck.ReasonNodeDeleted || node == nil {
		return ""
	}
	begun := slices.MaxFunc([]time.Time{since(node, contract.ConditionReady), b.thawed}, time.Time.Compare)
	timeout, lasted := timeoutIn(b.versions()), max(b.process.clock().Since(begun), b.at.Sub(begun))
	return because(lasted < timeout, fmt.Sprintf("is marked after %s of %s", lasted, timeout))
}

// keepsLimit compares what is known to be in remediation with what the limit allows of the Machines that the check selects, and of the
// places whose Machine is gone: other Machines may be unhealthy, and are not counted. It allows for more once a backup was restored: the
// ledger of the check, and the marks, are then of another time.
func keepsLimit(w *World, _ Write, b *pass) string {
	total := map[any]bool{}
	for _, m := range slices.Concat(sorted(b.machines), sorted(b.process.view.shown("Machine"))) {
		if selects(b.shown, m) {
			total[m.GetUID()] = true
		}
	}
	open := w.health.open(w, b.shown)
	for _, p := range open {
		total[p.machine] = true
	}
	limit := 0
	for _, version := range b.versions() {
		limit = max(limit, mostIn(version, len(total)))
	}
	return because(len(open) > limit && !w.backups.restored, fmt.Sprintf("is number %d of at most %d", len(open), limit))
}

func outageStays(_ *World, e Write, b *pass) string {
	now := b.process.view
	for _, domain := range []string{"", domainOf(e.Before, recordedNode(now.nodes(), e.Before))} {
		if wentAtOnce(b.shown, domain, b.machines, b.nodes) && wentAtOnce(b.shown, domain, now.shown("Machine"), now.nodes()) {
			return fmt.Sprintf("is one of several Machines whose Nodes stopped being ready at once, in the domain %q", domain)
		}
	}
	return ""
}

// remembersMarks is about the ledger that a process has stored last: people may have removed it meanwhile.
func remembersMarks(w *World, e Write, b *pass) string {
	is := func(entry healthcheck.Entry) bool { return entry.Machine == e.After.GetUID() && entry.Decided }
	return because(!slices.ContainsFunc(w.health.ledgers[b.shown.GetUID()].InFlight, is), "is not in the ledger of its check")
}

func honoursWishes(_ *World, e Write, b *pass) string {
	spared := has(e.Before, skip) || isPaused(e.Before) || isPaused(b.shown) || e.After.GetNamespace() != b.shown.GetNamespace()
	return because(spared, fmt.Sprintf("is marked by %s with the annotations %v", b.shown.GetNamespace(), e.Before.GetAnnotations()))
}

// namesHealthy is about what a pass reports whose caches showed, all the time, that a Node had not reported.
func namesHealthy(_ *World, e Write, b *pass) string {
	for _, nodes := range []byKey{b.nodes, b.process.view.nodes()} {
		if node := recordedNode(nodes, e.Before); node == nil || readinessOf(node) != "" {
			return ""
		}
	}
	return "becomes healthy"
}

// sparesRecovered holds for a set that nothing else makes smaller.
func sparesRecovered(w *World, e Write, _ *pass) string {
	o := w.ownerOf(e.After)
	healthy := statusOf(e.Before, contract.ConditionHealthCheckSucceeded) == "True"
	return because(healthy && o != nil && o.kind == "MachineSet" && !o.leaves() && len(o.owned()) <= o.desired(),
		"is deleted, and its check has found it healthy")
}

// remediationKept is about Machines that are available, whose replacement a person has requested.
func remediationKept(w *World, e Write, b *pass) string {
	o := w.ownerOf(e.After)
	if o == nil || !o.deploys() || o.strategy != rollout.RollingUpdate || o.leaves() || !isAvailable(e.Before) || w.isFreed(e.After) ||
		w.had(UserDeletes, UserScales, UserDeletesSet) {
		return ""
	}
	available := func(all []*unstructured.Unstructured) int {
		return len(slices.DeleteFunc(all, func(m *unstructured.Unstructured) bool {
			return !isAvailable(m) || !ownedBySet(m) || w.ownerOf(m) != o
		}))
	}
	left, least := available(o.owned()), o.floor()
	return because(left < least && available(sorted(b.process.view.shown("Machine"))) <= least,
		fmt.Sprintf("is deleted, and %d available Machines are left of at least %d", left, least))
}

// frozenHolds excuses a set whose label a webhook has stripped in this pass: the API server's answer ends the freeze.
func frozenHolds(w *World, _ Write, b *pass) string {
	stored := w.object("MachineSet", b.shown.GetNamespace(), b.shown.GetName())
	return because(isFrozen(b.shown) && (stored == nil || isFrozen(stored)), "is created")
}

func closedHolds(w *World, _ Write, b *pass) string {
	return because(b.closed && w.health.guards[b.process].isClosed(), "is written, and the gate of the process is closed")
}

func isMadeBy(set, m client.Object) bool {
	return scale.ReadStamp(m.GetAnnotations()).Set == set.GetUID()
}

// freezesSurplus counts as the freezer does: what the set controls, what it may adopt, and what it has made and nobody controls. Of those
// in deletion, each has a successor.
func freezesSurplus(w *World, e Write, b *pass) string {
	live, deleting, wanted := 0, 0, int(replicasIn(e.Before))
	selects := textAt(e.Before, "spec", "selector", "matchLabels") != ""
	for _, m := range b.process.view.shown("Machine") {
		owner := metav1.GetControllerOf(m)
		free := owner == nil || owner.Kind == e.After.GetKind() && owner.Name == e.After.GetName() // controlled by one that is gone
		switch leaves := m.GetDeletionTimestamp() != nil; {
		case m.GetNamespace() != e.After.GetNamespace():
		case leaves && metav1.IsControlledBy(m, e.After):
			deleting++
		case !leaves && (metav1.IsControlledBy(m, e.After) || selects && free && hasLabels(e.Before, m) || owner == nil && isMadeBy(e.After, m)):
			live++
		}
	}
	n := live + max(deleting-wanted, 0)
	return because(n <= wanted+1, fmt.Sprintf("is frozen with %d Machines of %d", n, wanted))
}
