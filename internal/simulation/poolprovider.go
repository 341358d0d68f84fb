package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

// pool is the provider of the MachinePool of a history: an actor that fulfils the InfraMachinePool contract, and the kubelets of its
// instances.
type pool struct {
	owner *owner
	// asks: the provider names the instances that leave, and waits until their Nodes are drained. elsewhere: spec.replicas is managed by the
	// provider, which wants wanted. emptyList: its list is empty, and not missing, when there are no instances.
	asks, elsewhere, emptyList bool
	// machines: the provider makes an infrastructure object for each instance, and the pool a Machine.
	machines bool
	wanted   int
	// mute: nothing is reported until then. repeats: the list names an instance twice. respelled: the IDs have another form.
	mute               time.Time
	repeats, respelled bool
	instances          []*poolInstance // in the order of their creation, with those that have ended
	ids                map[string]*poolInstance
	made               int
}

// poolInstance is an instance of a pool.
type poolInstance struct {
	name, id                  string
	version                   string    // of its kubelet: that of the template when it started
	due                       time.Time // when its Node joins or, after its end, counts as not answering
	leaving, ended, forgotten bool
	// asked: the provider has marked its Node.
	asked bool
}

const (
	poolFinalizer = "fake.machinist.dev/machinepool"
	// bootsIn is how long an instance takes until its Node joins, and silentIn how long after its end its Node counts as not answering.
	bootsIn  = 20 * time.Second
	silentIn = 40 * time.Second
)

// live are the instances that have not ended.
func (p *pool) live() []*poolInstance {
	return slices.DeleteFunc(slices.Clone(p.instances), func(i *poolInstance) bool { return i.ended })
}

// instanceOf returns the instance of a Node; nil for a Node that is not the pool's.
func (p *pool) instanceOf(node *unstructured.Unstructured) *poolInstance {
	id, _, _ := unstructured.NestedString(node.Object, "spec", "providerID")
	return p.ids[id]
}

func (w *World) poolInfra() *unstructured.Unstructured {
	return w.object(poolInfraKind, namespace, RootName)
}

// poolProvider is the actor.
func poolProvider(_ context.Context, w *World) []due {
	all := []due{{do: w.poolStep()}}
	times := []time.Time{w.pool.mute}
	for _, i := range w.pool.instances {
		times = append(times, i.due)
		all = append(all, due{do: w.poolStands(i)})
		for _, do := range w.nodeOfPool(i) {
			all = append(all, due{do: do})
		}
	}
	all = slices.DeleteFunc(all, func(d due) bool { return d.do == nil })
	for _, at := range times {
		if at.After(w.Now()) {
			all = append(all, due{at: at})
		}
	}
	return all
}

// nodeOfPool is what happens to the Node of an instance: its kubelet creates it and, when the instance has ended, does not answer. The
// cloud controller manager then deletes a Node that no pool has recorded.
func (w *World) nodeOfPool(i *poolInstance) []func() {
	obj := w.object("Node", "", i.name)
	switch {
	case w.Now().Before(i.due):
		return nil
	case obj == nil && !i.ended:
		return []func(){func() {
			w.note("kubelet", "create Node "+i.name, said(w.store.Client().Create(w.ctx, w.readyNode(i.name, i.id, i.version))))
		}}
	case obj == nil || !i.ended || w.pool.instanceOf(obj) != i:
		return nil
	}
	var all []func()
	node := typed[corev1.Node](obj)
	if readyOf(node).Status != corev1.ConditionUnknown {
		all = append(all, func() { w.setReady(w.ctx, node, corev1.ConditionUnknown) })
	}
	if w.calm && !w.recordsNode(obj) {
		all = append(all, func() { w.collects(w.ctx, node) })
	}
	return all
}

// recordsNode reports whether the pool has recorded a Node.
func (w *World) recordsNode(node *unstructured.Unstructured) bool {
	root := w.pool.owner.stored()
	if root == nil {
		return false
	}
	refs, _, _ := unstructured.NestedSlice(root.Object, "status", "nodeRefs")
	return slices.ContainsFunc(refs, func(ref any) bool { r, _ := ref.(map[string]any); return r["uid"] == string(node.GetUID()) })
}

// poolStep returns the next thing that the provider does; nil when everything is as the pool wants it, and reported.
func (w *World) poolStep() func() {
	p, infra, root := w.pool, w.poolInfra(), w.pool.owner.stored()
	switch {
	case infra == nil || infra.GetDeletionTimestamp() != nil:
		return w.poolGoes(infra)
	case infra.GetAnnotations()[contract.PausedAnnotation] != "", p.owner.leaves(), metav1.GetControllerOf(infra) == nil:
		return nil
	case !slices.Contains(infra.GetFinalizers(), poolFinalizer):
		return w.holds(infra, poolFinalizer, true)
	}
	want := p.owner.desired()
	if p.elsewhere && p.wanted != want {
		return func() { w.patch(w.ctx, root, fmt.Sprintf(`{"spec":{"replicas":%d}}`, p.wanted)) }
	}
	if do := w.poolScale(want); do != nil {
		return do
	}
	return w.poolReport(infra)
}

// poolGoes ends the instances of infrastructure that is being deleted, which may be gone, and lets it go.
func (w *World) poolGoes(infra *unstructured.Unstructured) func() {
	live := w.pool.live()
	switch {
	case infra != nil && infra.GetAnnotations()[contract.PausedAnnotation] != "":
		return nil
	case len(live) > 0 && (infra == nil || !w.pool.machines || w.partOf(live[0]) == nil):
		return func() { w.ends(live[0]) }
	case infra != nil && slices.Contains(infra.GetFinalizers(), poolFinalizer):
		return w.holds(infra, poolFinalizer, false)
	}
	return nil
}

// poolScale starts an instance, or ends one once it may go.
func (w *World) poolScale(want int) func() {
	p := w.pool
	stay := slices.DeleteFunc(p.live(), func(i *poolInstance) bool { return i.leaving })
	leaving := slices.DeleteFunc(p.live(), func(i *poolInstance) bool { return !i.leaving })
	switch {
	case len(stay) < want && len(leaving) > 0:
		return func() { leaving[0].leaving = false }
	case len(stay) < want:
		return func() { w.starts(fmt.Sprintf("pool-%d", p.made)) }
	case len(stay) > want && p.asks:
		return func() { stay[0].leaving = true }
	case len(stay) > want && p.machines && w.machineOfPool(stay[0]) != nil:
		return w.releases(stay[0])
	case len(stay) > want:
		return func() { w.ends(stay[0]) }
	}
	for _, i := range leaving {
		node := w.object("Node", "", i.name)
		if node == nil && !w.Now().Before(i.due) || node != nil && saysDrained(node) {
			return func() { w.ends(i) }
		}
	}
	return nil
}

func (w *World) starts(name string) {
	p := w.pool
	i := &poolInstance{name: name, id: fmt.Sprintf("fake:///zone-a/i-%d", p.made), due: w.Now().Add(bootsIn)}
	if root := p.owner.stored(); root != nil {
		i.version = textAt(root, "spec", "template", "spec", "version")
	}
	p.made++
	p.instances, p.ids[i.id] = append(p.instances, i), i
	w.note("provider", "start the instance "+i.name+" as "+i.id, "")
}

func (w *World) ends(i *poolInstance) {
	i.ended, i.due, i.leaving = true, w.Now().Add(silentIn), false
	w.note("provider", "the instance "+i.name+" as "+i.id+" ends", "")
}

// poolReport writes what the provider says, if that is something else than before: spec and metadata first, status later. A list that lacks
// an instance is no list of all instances at any moment: the status counts more before it gets another one.
func (w *World) poolReport(infra *unstructured.Unstructured) func() {
	p := w.pool
	if w.Now().Before(p.mute) {
		return nil
	}
	replicas := int64(len(p.live()))
	status := map[string]any{"replicas": replicas, "ready": true, "initialization": map[string]any{"provisioned": true}}
	if p.machines {
		status["infrastructureMachineKind"] = partGVK().Kind
	}
	count := w.states(infra, jsonOf(map[string]any{"status": status}))
	n, counted, _ := unstructured.NestedInt64(infra.Object, "status", "replicas")
	if counted && n < replicas && slices.ContainsFunc(p.live(), func(i *poolInstance) bool { return i.forgotten }) {
		return count
	}
	if do := w.poolAsks(); do != nil {
		return do
	}
	list := p.list()
	var ids any
	if len(list) > 0 || p.emptyList {
		ids = list
	}
	has, found, _ := unstructured.NestedStringSlice(infra.Object, "spec", "providerIDList")
	switch {
	case !slices.Equal(has, list) || found != (ids != nil):
		return w.writes(infra, jsonOf(map[string]any{"spec": map[string]any{"providerIDList": ids}}))
	case !counted || n != replicas:
		return count
	}
	return nil
}

// poolAsks marks the Node of an instance that is about to leave, and takes back the mark of one that stays.
func (w *World) poolAsks() func() {
	for _, i := range w.pool.live() {
		node := w.object("Node", "", i.name)
		if node == nil || i.leaving == i.asked && (!i.leaving || isMarked(node)) {
			continue
		}
		return func() {
			if i.asked = i.leaving; isMarked(node) != i.leaving {
				w.markNode(node)
			}
		}
	}
	return nil
}

// list is what the provider says about its instances.
func (p *pool) list() []string {
	ids := []string{}
	for _, i := range p.live() {
		switch {
		case i.forgotten:
		case p.respelled:
			ids = append(ids, respelled(i.id))
		default:
			ids = append(ids, i.id)
		}
	}
	if p.repeats && len(ids) > 0 {
		slices.Reverse(ids)
		ids = append(ids, ids[0])
	}
	return ids
}

// respelled is the other form of a provider ID.
func respelled(id string) string {
	return "fake://" + strings.ToUpper(strings.TrimPrefix(id, "fake:///"))
}

// partOf returns the infrastructure object that stands for an instance of the pool; nil without.
func (w *World) partOf(i *poolInstance) *unstructured.Unstructured {
	return w.object(partGVK().Kind, namespace, i.name)
}

// isOfPool reports whether the provider of the pool has made an infrastructure object.
func (w *World) isOfPool(part *unstructured.Unstructured) bool {
	return w.pool != nil && !isMisplaced(part) && w.pool.ids[providerIDIn(part)] != nil
}

// machineOfPool returns the Machine of an instance of the pool; nil without.
func (w *World) machineOfPool(i *poolInstance) *unstructured.Unstructured {
	if part := w.partOf(i); part != nil {
		return w.machineOf(part)
	}
	return nil
}

// poolStands keeps the infrastructure objects of a pool with Machines: one for each instance while that runs, and the end of an instance
// whose object is deleted.
func (w *World) poolStands(i *poolInstance) func() {
	part, infra := w.partOf(i), w.poolInfra()
	switch {
	case !w.pool.machines || part == nil && (i.ended || infra == nil || infra.GetDeletionTimestamp() != nil):
		return nil
	case part == nil:
		return func() { w.represents(i) }
	case providerIDIn(part) != i.id || isPaused(part):
		return nil
	case i.ended:
		return w.standsNoMore(part)
	case part.GetDeletionTimestamp() != nil || w.calm && hasFailure(part): // the provider gives a failed one up
		return func() { w.ends(i) }
	case w.isUnlabelled(part):
		return w.writes(part, jsonOf(map[string]any{"metadata": map[string]any{"labels": poolLabels()}}))
	case textAt(part, "status", "initialization", "provisioned") != "true":
		return w.states(part, `{"status":{"initialization":{"provisioned":true},`+readyNow(w, true)+`}}`)
	}
	return nil
}

// standsNoMore is the end of the infrastructure object of an instance that has ended.
func (w *World) standsNoMore(part *unstructured.Unstructured) func() {
	if part.GetDeletionTimestamp() == nil {
		return func() { w.deletesAs("provider", part.GetName(), part) }
	}
	if slices.Contains(part.GetFinalizers(), providerFinalizer) {
		return w.writes(part, `{"metadata":{"finalizers":null}}`)
	}
	return nil
}

// poolLabels are those by which a pool finds the infrastructure objects of its instances.
func poolLabels() map[string]string {
	return map[string]string{contract.PoolNameLabel: RootName, contract.ClusterNameLabel: "c1"}
}

// isUnlabelled reports whether the provider labels an object again, without which it would get no Machine.
func (w *World) isUnlabelled(part *unstructured.Unstructured) bool {
	has := part.GetLabels()
	return w.calm && w.machineOf(part) == nil && (has[contract.PoolNameLabel] == "" || has[contract.ClusterNameLabel] == "")
}

// represents creates the infrastructure object of an instance.
func (w *World) represents(i *poolInstance) {
	infra, part := w.poolInfra(), fake.InfraMachine(contract.V1Beta2, i.name, fake.WithField(i.id, "spec", "providerID"))
	part.SetNamespace(namespace)
	part.SetFinalizers([]string{providerFinalizer})
	part.SetLabels(poolLabels())
	part.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: infra.GetAPIVersion(), Kind: infra.GetKind(), Name: infra.GetName(), UID: infra.GetUID(),
	}})
	w.note("provider", "create "+part.GetKind()+" "+i.name, said(w.store.Client().Create(w.ctx, part)))
}

// releases is the provider that has the Machine of an instance deleted, which drains its Node; nil while that is under way.
func (w *World) releases(i *poolInstance) func() {
	m := w.machineOfPool(i)
	if m.GetDeletionTimestamp() != nil {
		return nil
	}
	return func() { w.deletesAs("provider", "Machine "+m.GetName(), m) }
}
