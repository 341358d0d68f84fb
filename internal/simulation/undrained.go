package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// DrainsFirst is an invariant about Pods, which is checked in histories that have some.
const DrainsFirst = "an instance goes only after its drain, the limit of it, or an excuse of the policy"

// takesPod reports whether a process takes a Pod away with a write.
func takesPod(w *World, e Write) bool {
	return w.acting != nil && e.After.GetKind() == "Pod" && e.Before != nil && isDeletion(e)
}

func evictsOwnPods(w *World, e Write) error {
	if !takesPod(w, e) || w.restoredWithin(time.Minute) { // a pass may be under way that began before
		return nil
	}
	node := textAt(e.Before, "spec", "nodeName")
	id := providerIDIn(w.object("Node", "", node))
	for _, m := range w.Objects("Machine") {
		if !isMisplaced(m) && sameID(providerIDIn(m), id) && m.GetDeletionTimestamp() == nil && !w.revived(w.acting, m) {
			return fmt.Errorf("%s on Node %s, whose Machine %s stays", e.After.GetName(), node, m.GetName())
		}
	}
	return nil
}

// revived reports whether a backup has ended the deletion of a Machine, and a process has yet to see that, or to act on it.
func (w *World) revived(p *process, m *unstructured.Unstructured) bool {
	shown := p.view.shown("Machine")[client.ObjectKeyFromObject(m)]
	return w.backups.restored && (w.Now().Sub(w.backups.ended) < time.Minute || shown != nil && shown.GetDeletionTimestamp() != nil)
}

// keepsBudgets counts anew. While the controller of budgets is behind, only the numbers in the status can be kept.
func keepsBudgets(w *World, e Write) error {
	if !takesPod(w, e) || w.apps.before == nil || !isReady(e.Before) {
		return nil
	}
	if allowed := w.apps.before.Status.DisruptionsAllowed; allowed <= 0 {
		return fmt.Errorf("%s is deleted, and the budget allows %d disruptions", e.After.GetName(), allowed)
	}
	left := len(slices.DeleteFunc(w.Objects("Pod"), func(p *unstructured.Unstructured) bool {
		return p.GetDeletionTimestamp() != nil || !isReady(p)
	}))
	if least := w.apps.budget.healthy; w.apps.current && left < least {
		return fmt.Errorf("%s is deleted, %d healthy Pods are left, and the budget requires %d", e.After.GetName(), left, least)
	}
	return nil
}

// drainsFirst is checked before a process has an instance deleted.
func (w *World) drainsFirst(p *process, r *cloud.Request) error {
	return w.drained(p, find(w.instances(), func(i cloud.Instance) bool {
		is, m := r.ProviderID == "" && i.Token == r.Token || sameID(i.ProviderID, r.ProviderID), w.holderOf(i)
		return is && i.State != cloud.Deleting && (m == nil || !waitsForHooks(recordOf(m)))
	}))
}

// recordOf is what a Machine records about its present deletion, whatever the clock.
func recordOf(m *unstructured.Unstructured) contract.Deletion {
	var metadata contract.Metadata
	metadata.From(m)
	return contract.DeletionOf(&metadata, nil, time.Unix(1<<40, 0))
}

func waitsForHooks(d contract.Deletion) bool {
	return !d.Stages[contract.StagePreTerminateHooks].Start.IsZero()
}

// drainedIn is the UID of the Node whose drain has ended, empty without one.
func drainedIn(d contract.Deletion) types.UID {
	if d.HasEnded(contract.StageDrain, d.Node) {
		return d.Node
	}
	return ""
}

// drainEnds is checked when a Machine records that its Node was drained, or begins to wait for pre-terminate hooks: its drain is over then,
// whatever happens to its Node later. An infrastructure object that the garbage collector has deleted already ends it too.
func drainEnds(w *World, e Write) error {
	if w.acting == nil || e.Before == nil || e.After.GetKind() != "Machine" {
		return nil
	}
	before, after := recordOf(e.Before), recordOf(e.After)
	hooks := waitsForHooks(after) && !waitsForHooks(before)
	if !hooks && (drainedIn(after) == "" || drainedIn(after) == drainedIn(before)) {
		return nil
	}
	part := w.object(partGVK().Kind, e.After.GetNamespace(), e.After.GetName())
	if w.provided != nil && (part == nil || part.GetDeletionTimestamp() != nil) {
		return nil
	}
	own := func(i cloud.Instance) bool { return w.isOwn(e.After, i) && i.State != cloud.Deleting }
	return w.drained(w.acting, find(w.instances(), own))
}

// holderOf returns the Machine of an instance; nil without.
func (w *World) holderOf(i cloud.Instance) (machine *unstructured.Unstructured) {
	for _, m := range w.Objects("Machine") {
		if w.isOwn(m, i) {
			machine = m
		}
	}
	return machine
}

// drained reports an error for a Pod that holds the Node of an instance; none for one that no Machine has.
func (w *World) drained(p *process, i cloud.Instance) error {
	machine, node := w.holderOf(i), w.withID("Node", i.ProviderID)
	if w.apps == nil || node == nil || machine == nil || w.habits.hidesNode(i.Token) || w.overLimit(p, i) ||
		w.isLate(machine, node) || !isVisible(p, machine, node.GetUID(), i.ProviderID) {
		return nil
	}
	return w.emptied(p, node, drainedIn(recordOf(machine)) == node.GetUID())
}

// emptied reports an error for a Pod that holds a Node, whose drain may be over.
func (w *World) emptied(p *process, node *unstructured.Unstructured, over bool) error {
	shown := p.nodes(w.clusterWith(node)).ByName(node.GetName())
	for _, pod := range w.podsOn(node) {
		switch uid := pod.GetUID(); {
		case excused(p, shown, pod):
			w.apps.excused[uid] = true
		case over && w.writers.uncordoned[node.GetUID()]:
		case !over || !w.apps.excused[uid]: // its Node may answer again after the drain
			return fmt.Errorf("the Node %s has the Pod %s", node.GetName(), pod.GetName())
		}
	}
	return nil
}

// isLate reports whether a Node has registered, or registered again after its drain, since its Machine waits for pre-terminate hooks: it is
// not drained, because the hooks may have shut down the API server.
func (w *World) isLate(m, node *unstructured.Unstructured) bool {
	d := recordOf(m)
	drained, since := drainedIn(d), d.Stages[contract.StagePreTerminateHooks].Start
	return waitsForHooks(d) && drained != node.GetUID() && (drained != "" || node.GetCreationTimestamp().Add(w.slack()).After(since))
}

// skewSlack is how much the clocks of two processes differ at most, unless they jump.
const skewSlack = 2 * time.Minute

// overLimit reports whether the time for the drain of any Machine that names an instance can be over by the clock of the process. A pass
// may be under way that began before a backup ended the deletion.
func (w *World) overLimit(p *process, i cloud.Instance) bool {
	return w.apps.limit > 0 && slices.ContainsFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool {
		deleted := m.GetDeletionTimestamp()
		over := deleted == nil && w.revived(p, m) || deleted != nil && p.clock().Since(deleted.Time)+skewSlack+2*w.far >= w.apps.limit
		return over && (w.isOwn(m, i) || sameID(providerIDIn(m), i.ProviderID))
	})
}

// isVisible reports whether a process can find the Node: it is recorded, or in its cache. A provider that has failed does not name the
// instance of an object that was restored, and then nothing records whose the Node is.
func isVisible(p *process, m *unstructured.Unstructured, uid types.UID, id string) bool {
	w, recorded := p.world, textAt(m, "status", "nodeRef", "uid") == string(uid)
	nameless := w.provided != nil && providerIDIn(m) == "" && providerIDIn(w.refsOf(m)[0]) == ""
	is := func(node *corev1.Node) bool { return node.UID == uid }
	return recorded || !nameless && slices.ContainsFunc(p.nodesFor(m).ByProviderID(id), is)
}

// excused: a Pod that terminates on a Node that does not answer is not waited for, a minute after the time that the policy gives it. See
// drain.Policy.
func excused(p *process, node *corev1.Node, pod *unstructured.Unstructured) bool {
	since, silent := drain.UnreachableSince(node)
	const after, skip = 5 * time.Minute, time.Minute
	now := p.clock().Now().Add(p.world.far)
	for _, other := range p.world.processes { // it may have finished the drain
		now = now.Add(max(0, other.skew-p.skew))
	}
	return silent && pod.GetDeletionTimestamp() != nil && now.Sub(since) >= after && now.Sub(p.world.apps.deletedAt[pod.GetUID()]) >= skip
}
