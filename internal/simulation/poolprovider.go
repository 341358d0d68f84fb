package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
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
	boots, endedAt            time.Time
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
type poolProvider struct{}

func (poolProvider) can(ctx context.Context, w *World) []func() {
	p := w.pool
	var all []func()
	if do := w.poolStep(ctx); do != nil {
		all = append(all, do)
	}
	for _, i := range p.instances {
		node := w.object("Node", "", i.name)
		if do := w.poolStands(ctx, i); do != nil {
			all = append(all, do)
		}
		switch {
		case !i.ended && node == nil && !w.Now().Before(i.boots):
			all = append(all, func() {
				w.note("kubelet", "create Node "+i.name, said(w.store.Client().Create(ctx, w.readyNode(i.name, i.id))))
			})
		case i.ended && node != nil && p.instanceOf(node) == i && !w.Now().Before(i.endedAt.Add(silentIn)):
			all = append(all, w.lostNode(ctx, typed[corev1.Node](node))...)
		}
	}
	return all
}

// lostNode is what the cluster does about the Node of an instance that has ended: it says that the kubelet does not answer, and the cloud
// controller manager deletes a Node that no pool has recorded.
func (w *World) lostNode(ctx context.Context, node *corev1.Node) []func() {
	var all []func()
	if readyOf(node).Status != corev1.ConditionUnknown {
		all = append(all, func() { w.setReady(ctx, node, corev1.ConditionUnknown) })
	}
	if w.calm && !w.recordsNode(node) {
		all = append(all, func() { w.collects(ctx, node) })
	}
	return all
}

// recordsNode reports whether the pool has recorded a Node.
func (w *World) recordsNode(node *corev1.Node) bool {
	root := w.pool.owner.stored()
	if root == nil {
		return false
	}
	refs, _, _ := unstructured.NestedSlice(root.Object, "status", "nodeRefs")
	return slices.ContainsFunc(refs, func(ref any) bool { r, _ := ref.(map[string]any); return r["uid"] == string(node.UID) })
}

func (poolProvider) next(w *World) time.Time {
	var next time.Time
	for _, at := range append([]time.Time{w.pool.mute}, w.pool.times()...) {
		if at.After(w.Now()) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func (p *pool) times() []time.Time {
	all := make([]time.Time, 0, len(p.instances))
	for _, i := range p.instances {
		if i.ended {
			all = append(all, i.endedAt.Add(silentIn))
			continue
		}
		all = append(all, i.boots)
	}
	return all
}

// poolStep returns the next thing that the provider does; nil when everything is as the pool wants it, and reported.
func (w *World) poolStep(ctx context.Context) func() {
	p, infra, root := w.pool, w.poolInfra(), w.pool.owner.stored()
	paused := infra != nil && infra.GetAnnotations()[contract.PausedAnnotation] != ""
	switch live := p.live(); {
	case paused:
		return nil
	case infra == nil || infra.GetDeletionTimestamp() != nil:
		if len(live) > 0 && (infra == nil || !p.machines || w.partOf(live[0]) == nil) {
			return func() { w.ends(live[0]) }
		}
		if infra != nil && slices.Contains(infra.GetFinalizers(), poolFinalizer) {
			return func() { w.provides(ctx, infra, withFinalizer(infra, poolFinalizer, false), false) }
		}
		return nil
	case root == nil || root.GetDeletionTimestamp() != nil || metav1.GetControllerOf(infra) == nil:
		return nil
	case !slices.Contains(infra.GetFinalizers(), poolFinalizer):
		return func() { w.provides(ctx, infra, withFinalizer(infra, poolFinalizer, true), false) }
	}
	want := p.owner.desired()
	if p.elsewhere && p.wanted != want {
		return func() { w.patch(ctx, root, fmt.Sprintf(`{"spec":{"replicas":%d}}`, p.wanted)) }
	}
	if do := w.poolScale(want); do != nil {
		return do
	}
	return w.poolReport(ctx, infra)
}

// poolScale starts an instance, or ends one once it may go.
func (w *World) poolScale(want int) func() {
	p := w.pool
	live := p.live()
	var stay, leaving []*poolInstance
	for _, i := range live {
		if i.leaving {
			leaving = append(leaving, i)
		} else {
			stay = append(stay, i)
		}
	}
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
		if node == nil && !w.Now().Before(i.boots) || node != nil && node.GetAnnotations()[contract.DrainedAnnotation] == string(node.GetUID()) {
			return func() { w.ends(i) }
		}
	}
	return nil
}

func (w *World) starts(name string) {
	p := w.pool
	i := &poolInstance{name: name, id: fmt.Sprintf("fake:///zone-a/i-%d", p.made), boots: w.Now().Add(bootsIn)}
	p.made++
	p.instances, p.ids[i.id] = append(p.instances, i), i
	w.note("provider", "start the instance "+i.name+" as "+i.id, "")
}

func (w *World) ends(i *poolInstance) {
	i.ended, i.endedAt, i.leaving = true, w.Now(), false
	w.note("provider", "the instance "+i.name+" as "+i.id+" ends", "")
}

// poolReport writes what the provider says, if that is something else than before: spec and metadata first, status later. A list that lacks
// an instance is no list of all instances at any moment: the status counts more before it gets another one.
func (w *World) poolReport(ctx context.Context, infra *unstructured.Unstructured) func() {
	p := w.pool
	if w.Now().Before(p.mute) {
		return nil
	}
	replicas := int64(len(p.live()))
	n, counted, _ := unstructured.NestedInt64(infra.Object, "status", "replicas")
	count := func() {
		status := map[string]any{"replicas": replicas, "ready": true, "initialization": map[string]any{"provisioned": true}}
		if p.machines {
			status["infrastructureMachineKind"] = partGVK().Kind
		}
		w.provides(ctx, infra, jsonOf(map[string]any{"status": status}), true)
	}
	if counted && n < replicas && slices.ContainsFunc(p.live(), func(i *poolInstance) bool { return i.forgotten }) {
		return count
	}
	if do := w.poolAsks(ctx); do != nil {
		return do
	}
	list := p.list()
	var ids any
	if len(list) > 0 || p.emptyList {
		ids = list
	}
	has, found, _ := unstructured.NestedStringSlice(infra.Object, "spec", "providerIDList")
	if !slices.Equal(has, list) || found != (ids != nil) {
		body, err := json.Marshal(map[string]any{"spec": map[string]any{"providerIDList": ids}})
		return func() { w.fail("a report can be written", err); w.provides(ctx, infra, string(body), false) }
	}
	if !counted || n != replicas {
		return count
	}
	return nil
}

// poolAsks marks the Node of an instance that is about to leave, and takes back the mark of one that stays.
func (w *World) poolAsks(ctx context.Context) func() {
	for _, i := range w.pool.live() {
		node := w.object("Node", "", i.name)
		if node == nil || i.leaving == i.asked && (!i.leaving || isMarked(node)) {
			continue
		}
		return func() {
			if i.asked = i.leaving; isMarked(node) != i.leaving {
				w.markNode(ctx, node)
			}
		}
	}
	return nil
}

// list is what the provider says about its instances.
func (p *pool) list() []string {
	form := func(i *poolInstance) string {
		if p.respelled {
			return respelled(i.id)
		}
		return i.id
	}
	ids := []string{}
	for _, i := range p.live() {
		if !i.forgotten {
			ids = append(ids, form(i))
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

func (w *World) provides(ctx context.Context, infra *unstructured.Unstructured, body string, status bool) {
	into, p := infra.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body))
	var err error
	if status {
		err = w.store.Client().Status().Patch(ctx, into, p)
	} else {
		err = w.store.Client().Patch(ctx, into, p)
	}
	w.note("provider", "patch "+poolInfraKind+" "+body, said(err))
}

// poolLags, repeats, forgets, respells and replaces are what providers do.
func (w *World) poolLags(context.Context) {
	if w.pool != nil {
		w.pool.mute = w.Now().Add(time.Duration(1+w.choices.pick(10)) * 30 * time.Second)
		w.note("provider", "reports nothing until "+w.pool.mute.Sub(w.begun).String(), "")
	}
}

func (w *World) poolRepeats(context.Context) {
	if w.pool != nil {
		w.pool.repeats = !w.pool.repeats
	}
}

func (w *World) poolForgets(context.Context) {
	if i := w.someInstance(); i != nil {
		i.forgotten = !i.forgotten
	}
}

func (w *World) poolRespells(context.Context) {
	if w.pool != nil {
		w.pool.respelled = !w.pool.respelled
	}
}

func (w *World) poolReplaces(context.Context) {
	if i := w.someInstance(); i != nil {
		w.ends(i)
		if w.choices.pick(3) == 2 {
			w.starts(i.name)
		}
	}
}

// someInstance is one that has not ended; nil without.
func (w *World) someInstance() *poolInstance {
	if w.pool == nil {
		return nil
	}
	live := w.pool.live()
	if len(live) == 0 {
		return nil
	}
	return live[w.choices.pick(len(live))]
}
