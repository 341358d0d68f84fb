package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machinepool"
)

// Faults of pools, in histories whose root is a MachinePool.
const (
	// PoolLags: the provider reports nothing for a while. PoolRepeats: its list names an instance twice, in another order. PoolForgets: the
	// list lacks an instance that status.replicas counts. PoolRespells: it has another form of all IDs than the Nodes have.
	PoolLags     Fault = "pool lags"
	PoolRepeats  Fault = "pool repeats"
	PoolForgets  Fault = "pool forgets"
	PoolRespells Fault = "pool respells"
	// PoolReplaces: an instance ends by itself, and the provider starts another one, which may have the same name.
	PoolReplaces Fault = "pool replaces"
	// UserDeletesPool: a person deletes the pool, with one of the propagation policies. UserMarksNode: a person marks a Node as one that
	// leaves, or takes the mark away.
	UserDeletesPool Fault = "user deletes the pool"
	UserMarksNode   Fault = "user marks a node"
)

func poolDisturbances() []disturbance {
	return []disturbance{
		{PoolLags, (*World).poolLags},
		{PoolRepeats, func(w *World, _ context.Context) { w.pool.repeats = !w.pool.repeats }},
		{PoolForgets, ofInstance(func(_ *World, i *poolInstance) { i.forgotten = !i.forgotten })},
		{PoolRespells, func(w *World, _ context.Context) { w.pool.respelled = !w.pool.respelled }},
		{PoolReplaces, ofInstance((*World).poolReplaces)},
		{UserDeletesPool, (*World).deletesPool},
		{UserMarksNode, (*World).marksNode},
	}
}

// ofInstance is what happens to an instance that has not ended.
func ofInstance(do func(*World, *poolInstance)) func(*World, context.Context) {
	return func(w *World, _ context.Context) {
		if live := w.pool.live(); len(live) > 0 {
			do(w, live[w.choices.pick(len(live))])
		}
	}
}

func (w *World) poolLags(context.Context) {
	w.pool.mute = w.Now().Add(time.Duration(1+w.choices.pick(10)) * 30 * time.Second)
	w.note("provider", "reports nothing until "+w.pool.mute.Sub(w.begun).String(), "")
}

func (w *World) poolReplaces(i *poolInstance) {
	w.ends(i)
	if w.choices.pick(3) == 2 {
		w.starts(i.name)
	}
}

const (
	poolKind      = "MachinePool"
	poolInfraKind = "FakeMachinePool"
	// otherNode is a Node that is not the pool's.
	otherNode = "other"
)

// poolKinds are the kinds of pools, owners last.
func poolKinds() []fake.ServedKind {
	return []fake.ServedKind{{GVK: fake.InfraMachinePoolGVK(contract.V1Beta2), Status: true}, {GVK: fake.MachinePoolGVK(), Status: true}}
}

// drawPool decides whether a history has a MachinePool, and whether its instances have Machines.
func (w *World) drawPool() *pool {
	if w.choices.pick(4) > 0 {
		for _, f := range faultsOf(poolDisturbances()) {
			w.drawnTo[f] = false
		}
		return nil
	}
	p := &pool{
		elsewhere: w.choices.pick(4) == 3, emptyList: w.choices.pick(2) == 1, ids: map[string]*poolInstance{},
		machines: w.provided != nil && w.choices.pick(3) > 0, owner: w.newOwner(poolKind, namespace, RootName, 3),
	}
	p.asks = !p.machines && w.choices.pick(2) == 1
	return p
}

// createPool creates the root of a history with a pool, its infrastructure, and a Node of another owner.
func (w *World) createPool(ctx context.Context) error {
	template := map[string]any{
		"clusterName": "c1", "bootstrap": map[string]any{"dataSecretName": "data"},
		"infrastructureRef": map[string]any{
			"apiGroup": fake.InfraMachinePoolGVK(contract.V1Beta2).Group, "kind": poolInfraKind, "name": RootName,
		},
	}
	if a := w.apps; a != nil && a.limit > 0 {
		template["deletion"] = map[string]any{"nodeDrainTimeoutSeconds": int64(a.limit / time.Second)}
	}
	obj := w.pool.owner.named()
	obj.Object["spec"] = map[string]any{"clusterName": "c1", "replicas": int64(3), "template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"node.cluster.x-k8s.io/pool": RootName}}, "spec": template,
	}}
	if w.pool.elsewhere {
		obj.SetAnnotations(map[string]string{"cluster.x-k8s.io/replicas-managed-by": "external-autoscaler"})
		w.pool.wanted = 3
	}
	return errors.Join(w.createPoolInfra(ctx), w.store.Client().Create(ctx, obj),
		w.store.Client().Create(ctx, w.readyNode(otherNode, "fake:///other", "")))
}

func (w *World) createPoolInfra(ctx context.Context) error {
	infra := fake.InfraMachinePool(contract.V1Beta2, RootName)
	infra.SetNamespace(namespace)
	return w.store.Client().Create(ctx, infra)
}

func (w *World) readyNode(name, id, version string) *corev1.Node {
	node := fake.Node(name, id)
	node.Status.NodeInfo.KubeletVersion = cmp.Or(version, "v1.36.0")
	w.reports(node, corev1.ConditionTrue)
	return node
}

// addCRDs puts CustomResourceDefinitions, which never change, into the cache of a process.
func (p *process) addCRDs(kinds ...schema.GroupVersionKind) {
	of := map[types.NamespacedName]*unstructured.Unstructured{}
	for _, gvk := range kinds {
		crd := &unstructured.Unstructured{Object: map[string]any{}}
		crd.SetGroupVersionKind(external.CRDGVK())
		crd.SetName(contract.CRDName(gvk.GroupKind()))
		crd.SetLabels(map[string]string{contract.V1Beta2.Label(): gvk.Version})
		crd.SetResourceVersion("1")
		of[client.ObjectKeyFromObject(crd)] = crd
	}
	p.view.kinds[external.CRDGVK().GroupKind()] = &viewed{objects: of}
}

// missingOfPool says what is not as desired of the pool.
func (w *World) missingOfPool() string {
	root, infra := w.pool.owner.stored(), w.poolInfra()
	for _, node := range w.Objects("Node") {
		if i := w.pool.instanceOf(node); i != nil && i.ended {
			return "Node " + node.GetName() + " of an instance that has ended: " + w.saidOfPool()
		}
	}
	if root == nil {
		if infra != nil && metav1.GetControllerOf(infra) != nil || len(w.pool.live()) > 0 && infra == nil {
			return "the pool is gone, and its infrastructure is not"
		}
		return ""
	}
	return cmp.Or(w.missingNodeOfPool(), w.miscountOfPool(root))
}

// missingNodeOfPool says which instance of the pool has no Node as the pool should have made it.
func (w *World) missingNodeOfPool() string {
	for _, i := range w.pool.live() {
		node := w.object("Node", "", i.name)
		switch {
		case node == nil:
			return "a Node of the instance " + i.name
		case poolMarked(node):
			return "Node " + i.name + " is marked as one that leaves: " + w.saidOfPool()
		case w.pool.machines && w.machineOfPool(i) == nil:
			return "a Machine of the instance " + i.name
		case !w.pool.machines && node.GetLabels()["node.cluster.x-k8s.io/pool"] != RootName:
			return "Node " + i.name + " has no label of the pool"
		}
	}
	return ""
}

// miscountOfPool says what the status of the pool counts wrongly.
func (w *World) miscountOfPool(root *unstructured.Unstructured) string {
	ready, phase := cmp.Or(textAt(root, "status", "readyReplicas"), "0"), textAt(root, "status", "phase")
	refs, _, _ := unstructured.NestedSlice(root.Object, "status", "nodeRefs")
	live, n := len(w.pool.live()), w.pool.owner.desired()
	if live != n || ready != strconv.Itoa(n) || len(refs) != n || phase != "Running" {
		return fmt.Sprintf("%d instances, %s ready and %d Nodes of %d, and the phase is %s: %s", live, ready, len(refs), n, phase, w.saidOfPool())
	}
	return ""
}

// saidOfPool returns the messages of the conditions of the pool and its Machines.
func (w *World) saidOfPool() string {
	var text []string
	if root := w.pool.owner.stored(); root != nil {
		text = append(text, messages(root))
	}
	for _, i := range w.pool.live() {
		if m := w.machineOfPool(i); m != nil {
			text = append(text, messages(m))
		}
	}
	return strings.Join(text, "; ")
}

// poolMarked reports whether a pool or a person has cordoned or marked a Node.
func poolMarked(node *unstructured.Unstructured) bool {
	return has(node, machinepool.CordonedAnnotation) || has(node, contract.DrainStartedAnnotation) ||
		has(node, contract.DrainedAnnotation) || isMarked(node)
}

// deletesPool is the user who deletes the pool.
func (w *World) deletesPool(ctx context.Context) {
	if root := w.pool.owner.stored(); root != nil && w.choices.pick(3) == 2 {
		policy := []metav1.DeletionPropagation{
			metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
		}[w.choices.pick(3)]
		w.note("user", "delete MachinePool --cascade="+strings.ToLower(string(policy)),
			said(w.store.Client().Delete(ctx, root.DeepCopy(), client.PropagationPolicy(policy))))
	}
}

// marksNode is the user who wants one instance to be drained, or does not any more.
func (w *World) marksNode(context.Context) {
	if all := w.Objects("Node"); len(all) > 0 {
		w.markNode(all[w.choices.pick(len(all))])
	}
}

func (w *World) markNode(node *unstructured.Unstructured) {
	value := `""`
	if isMarked(node) {
		value = "null"
	}
	w.patch(w.ctx, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, machinepool.DeleteMachineAnnotation, value))
}

// calmPool ends what the provider and the users do to a pool.
func (w *World) calmPool() {
	if w.pool == nil {
		return
	}
	w.pool.mute, w.pool.respelled = time.Time{}, false
	for _, i := range w.pool.instances {
		i.forgotten = false
	}
	for _, node := range w.Objects("Node") {
		if isMarked(node) {
			w.markNode(node)
		}
	}
}

// isMarked reports whether a Node is marked as one that leaves.
func isMarked(node *unstructured.Unstructured) bool {
	return has(node, machinepool.DeleteMachineAnnotation)
}
