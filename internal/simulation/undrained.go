package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// Names of the invariants about Pods, which are checked in histories that have some.
const (
	EvictsOwnPods = "a Pod is evicted only from the Node of a Machine that is being deleted"
	KeepsBudgets  = "no eviction leaves fewer healthy Pods than their budget wants"
	DrainsFirst   = "an instance goes only after its drain, the limit of it, or an excuse of the policy"
)

// taken reports whether a process takes a Pod away with the write.
func taken(w *World, e Write) (*corev1.Pod, bool) {
	if w.acting == nil || e.After.GetKind() != "Pod" || e.Before == nil || e.Before.GetDeletionTimestamp() != nil ||
		e.After.GetDeletionTimestamp() == nil && !e.Removed {
		return nil, false
	}
	return typed[corev1.Pod](e.Before), true
}

func evictsOwnPods(w *World, e Write) error {
	pod, is := taken(w, e)
	if !is || w.backups.restored && w.Now().Sub(w.backups.ended) < time.Minute { // a pass may be under way that began before
		return nil
	}
	id := w.providerIDOf(pod.Spec.NodeName)
	for _, m := range w.Objects("Machine") {
		if !isMisplaced(m) && sameID(providerIDIn(m), id) && m.GetDeletionTimestamp() == nil && !w.revived(w.acting, m) {
			return fmt.Errorf("%s on Node %s, whose Machine %s stays", pod.Name, pod.Spec.NodeName, m.GetName())
		}
	}
	return nil
}

// revived reports whether a backup has ended the deletion of a Machine, and a process has yet to see that, or to act on it.
func (w *World) revived(p *process, m *unstructured.Unstructured) bool {
	shown := p.view.kinds[kindOf("Machine").GroupKind()].objects[client.ObjectKeyFromObject(m)]
	return w.backups.restored && (w.Now().Sub(w.backups.ended) < time.Minute || shown != nil && shown.GetDeletionTimestamp() != nil)
}

func (w *World) providerIDOf(node string) string {
	return providerIDIn(w.object("Node", "", node))
}

// budgetBefore is what a budget allowed when a request arrived.
type budgetBefore struct {
	budget  *policyv1.PodDisruptionBudget
	current bool // its status counts all Pods as they are
}

// remember is called before each request for a Pod.
func (w *World) remember() {
	behind := slices.ContainsFunc(w.loops.Tasks(), func(t fake.Task) bool { return t.Loop == "budgets" })
	w.apps.before = budgetBefore{budget: w.budget(), current: !behind}
}

// keepsBudgets counts anew. While the controller of budgets is behind, only what the status says can be kept.
func keepsBudgets(w *World, e Write) error {
	pod, is := taken(w, e)
	if !is || w.apps.before.budget == nil || !isReady(pod) {
		return nil
	}
	known := w.apps.before
	if known.budget.Status.DisruptionsAllowed <= 0 {
		return fmt.Errorf("%s goes, and the budget allows %d disruptions", pod.Name, known.budget.Status.DisruptionsAllowed)
	}
	left := 0
	for _, other := range w.pods() {
		if other.DeletionTimestamp == nil && isReady(other) {
			left++
		}
	}
	if wants := w.apps.wants(); known.current && left < wants {
		return fmt.Errorf("%s goes, %d healthy Pods are left, and the budget wants %d", pod.Name, left, wants)
	}
	return nil
}

// wants is how many healthy Pods the budget wants.
func (a *apps) wants() int {
	switch a.budgeted {
	case oneUnavailable:
		return a.replicas - 1
	case oneAvailable:
		return 1
	case neverAllows:
		return a.replicas
	}
	return 0
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// drainsFirst is checked before a process has an instance deleted.
func (w *World) drainsFirst(p *process, r *cloud.Request) error {
	if w.apps == nil {
		return nil
	}
	for _, i := range w.instances() {
		if (r.ProviderID == "" && i.Token == r.Token || sameID(i.ProviderID, r.ProviderID)) && i.State != cloud.Deleting {
			if m := w.holderOf(i); m == nil || !waitsForHooks(m) {
				return w.drained(p, i)
			}
		}
	}
	return nil
}

// drainEnds is checked when a Machine records that its Node was drained, or begins to wait for pre-terminate hooks: its drain is over then,
// whatever happens to its Node later. An infrastructure object that the garbage collector has deleted already ends it too.
func drainEnds(w *World, e Write) error {
	if w.apps == nil || w.acting == nil || e.Before == nil || e.After.GetKind() != "Machine" {
		return nil
	}
	drained := func(m *unstructured.Unstructured) string { return m.GetAnnotations()[contract.DrainedAnnotation] }
	hooks := waitsForHooks(e.After) && !waitsForHooks(e.Before)
	if !hooks && (drained(e.After) == "" || drained(e.After) == drained(e.Before)) {
		return nil
	}
	part := w.object(partGVK().Kind, e.After.GetNamespace(), e.After.GetName())
	if w.provided != nil && (part == nil || part.GetDeletionTimestamp() != nil) {
		return nil
	}
	for _, i := range w.instances() {
		if isOwn(e.After, i) && i.State != cloud.Deleting {
			return w.drained(w.acting, i)
		}
	}
	return nil
}

// holderOf returns the Machine of an instance; nil without.
func (w *World) holderOf(i cloud.Instance) (machine *unstructured.Unstructured) {
	for _, m := range w.Objects("Machine") {
		if isOwn(m, i) {
			machine = m
		}
	}
	return machine
}

func waitsForHooks(m *unstructured.Unstructured) bool {
	_, waits := m.GetAnnotations()[contract.PreTerminateStartedAnnotation]
	return waits
}

// drained reports an error for a Pod that holds the Node of an instance.
func (w *World) drained(p *process, i cloud.Instance) error {
	machine := w.holderOf(i)
	var node *unstructured.Unstructured
	for _, n := range w.Objects("Node") {
		if sameID(providerIDIn(n), i.ProviderID) {
			node = n
		}
	}
	if node == nil || machine == nil || w.habits.hidesNode(i.Token) || w.anyOverLimit(p, i) || w.isLate(machine, node) ||
		!knows(p, machine, node.GetUID(), i.ProviderID) {
		return nil
	}
	return w.emptied(p, node, machine.GetAnnotations()[contract.DrainedAnnotation] == string(node.GetUID()))
}

// emptied reports an error for a Pod that holds a Node, whose drain may be over.
func (w *World) emptied(p *process, node *unstructured.Unstructured, over bool) error {
	shown := p.nodes(w.clusterWith(node)).ByName(node.GetName())
	for _, pod := range w.podsOn(node) {
		switch {
		case excused(p, shown, pod):
			w.apps.excused[pod.UID] = true
		case over && w.writers.uncordoned[node.GetUID()]:
		case !over || !w.apps.excused[pod.UID]: // its Node may answer again after the drain
			return fmt.Errorf("the Node %s has the Pod %s", node.GetName(), pod.Name)
		}
	}
	return nil
}

// isLate reports whether a Node has registered, or registered again after its drain, since its Machine waits for pre-terminate hooks: it is
// not drained, because the hooks may have shut down the API server.
func (w *World) isLate(m, node *unstructured.Unstructured) bool {
	since, err := time.Parse(time.RFC3339, m.GetAnnotations()[contract.PreTerminateStartedAnnotation])
	drained := m.GetAnnotations()[contract.DrainedAnnotation]
	return err == nil && drained != string(node.GetUID()) && (drained != "" || node.GetCreationTimestamp().Add(w.slack()).After(since))
}

// skewSlack is how much the clocks of two processes differ at most, unless they jump.
const skewSlack = 2 * time.Minute

// anyOverLimit reports whether the time for the drain of any Machine that names an instance can be over.
func (w *World) anyOverLimit(p *process, i cloud.Instance) bool {
	return slices.ContainsFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool {
		return (isOwn(m, i) || sameID(providerIDIn(m), i.ProviderID)) && w.overLimit(p, m)
	})
}

// overLimit reports whether the time for the drain can be over by the clock of the process. A pass may be under way that began before a
// backup ended the deletion.
func (w *World) overLimit(p *process, m *unstructured.Unstructured) bool {
	if w.apps.limit == 0 || m.GetDeletionTimestamp() == nil {
		return w.apps.limit > 0 && w.revived(p, m)
	}
	return p.clock().Since(m.GetDeletionTimestamp().Time)+skewSlack+2*w.far >= w.apps.limit
}

// knows reports whether a process can know of the Node: it is recorded, or in its cache. A provider that has failed does not name the
// instance of an object that was restored, and then nothing says whose the Node is.
func knows(p *process, m *unstructured.Unstructured, uid types.UID, id string) bool {
	if textAt(m, "status", "nodeRef", "uid") == string(uid) {
		return true
	}
	if w := p.world; w.provided != nil && providerIDIn(m) == "" && providerIDIn(w.refsOf(m)[0]) == "" {
		return false
	}
	for _, node := range p.nodesFor(m).ByProviderID(id) {
		if node.UID == uid {
			return true
		}
	}
	return false
}

// excused: a Pod that terminates on a Node that does not answer is not waited for, a minute after the time that the policy gives it. See
// drain.Policy.
func excused(p *process, node *corev1.Node, pod *corev1.Pod) bool {
	since, silent := drain.UnreachableSince(node)
	if !silent || pod.DeletionTimestamp == nil {
		return false
	}
	const after, skip = 5 * time.Minute, time.Minute
	now := p.clock().Now().Add(p.world.far)
	for _, other := range p.world.processes { // it may have finished the drain
		now = now.Add(max(0, other.skew-p.skew))
	}
	return now.Sub(since) >= after && now.Sub(p.world.apps.asked[pod.UID]) >= skip
}
