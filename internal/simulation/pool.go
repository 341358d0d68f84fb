package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Faults of pools, in histories whose root is a MachinePool.
const (
	// PoolRepeats: the list of the provider names an instance twice, in another order. PoolForgets: the list lacks an instance that
	// status.replicas counts. PoolRespells: it has another form of all IDs than the Nodes have.
	PoolRepeats  Fault = "pool repeats"
	PoolForgets  Fault = "pool forgets"
	PoolRespells Fault = "pool respells"
)

// poolDisturbances are the faults of pools: the provider may also do nothing for a while, and an instance may end by itself, after which
// the provider starts another one, with the same name or not. People delete the pool, and mark Nodes as leaving or take such marks away.
func poolDisturbances() []disturbance {
	return []disturbance{
		edit("pool lags", ofKind(poolInfraKind), (*World).slowed), misreports(PoolRepeats), misreports(PoolForgets), misreports(PoolRespells),
		{"pool replaces", func(w *World, _ context.Context) {
			if i := oneOf(w, w.ofPool()...); i.Name != "" {
				w.ends("provider", i)
			}
		}},
		edit("user deletes the pool", ofKind(poolKind), (*World).cascades),
		edit("user marks a node", ofKind("Node"), toggled(scale.DeleteAnnotation)),
	}
}

func ofKind(kind string) func(*World) []*unstructured.Unstructured {
	return func(w *World) []*unstructured.Unstructured { return w.Objects(kind) }
}

// misreports is a fault in which the provider begins to list its instances wrongly, or now and then ends that.
func misreports(fault Fault) disturbance {
	return disturbance{fault, func(w *World, _ context.Context) { w.pool.wrong = oneOf(w, fault, fault, fault, "") }}
}

const (
	poolKind      = "MachinePool"
	poolInfraKind = "FakeMachinePool"
	// poolPrefix begins the names of the instances of the pool, and of their objects.
	poolPrefix = "pool-"
	// otherNode is a Node that is not the pool's.
	otherNode = "other"
)

func isOfPool(name string) bool { return strings.HasPrefix(name, poolPrefix) }

// poolKinds are the kinds of pools, owners last.
func poolKinds() []fake.ServedKind {
	return []fake.ServedKind{{GVK: fake.InfraMachinePoolGVK(contract.V1Beta2), Status: true}, {GVK: fake.MachinePoolGVK(), Status: true}}
}

// drawPool decides whether a history has a MachinePool, and whether its instances have Machines.
func (w *World) drawPool() *pool {
	if w.choices.pick(4) > 0 {
		w.hasNone(faultsOf(poolDisturbances())...)
		return nil
	}
	machines := w.provided != nil && w.choices.pick(3) > 0
	return &pool{
		owner: w.newOwner(poolKind, namespace, RootName, 3), wanted: 3, elsewhere: w.choices.pick(4) == 3, machines: machines,
		requestsDrain: !machines && w.choices.pick(2) == 1,
	}
}

// createPool creates the root of a history with a pool, its infrastructure, and a Node of another owner.
func (w *World) createPool(ctx context.Context, spec map[string]any) error {
	gvk := fake.InfraMachinePoolGVK(contract.V1Beta2)
	spec["infrastructureRef"] = map[string]any{"apiGroup": gvk.Group, "kind": gvk.Kind, "name": RootName}
	obj, node := w.pool.owner.named(), fake.Node(otherNode, "fake:///other")
	obj.Object["spec"] = map[string]any{"clusterName": "c1", "replicas": int64(w.pool.wanted), "template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"node.cluster.x-k8s.io/pool": RootName}}, "spec": spec,
	}}
	if w.pool.elsewhere {
		obj.SetAnnotations(map[string]string{"cluster.x-k8s.io/replicas-managed-by": "external-autoscaler"})
	}
	w.reports(node, corev1.ConditionTrue)
	return errors.Join(w.createPoolInfra(ctx), w.store.Client().Create(ctx, obj), w.store.Client().Create(ctx, node))
}

func (w *World) createPoolInfra(ctx context.Context) error {
	return w.store.Client().Create(ctx, fake.InfraMachinePool(contract.V1Beta2, RootName))
}

// missingOfPool returns what is not as desired of the pool, with the messages of its conditions and those of its Machines.
func (w *World) missingOfPool() string {
	text := w.lackOfPool()
	for _, obj := range append(w.Objects(poolKind), w.Objects("Machine")...) {
		if text != "" && (obj.GetKind() == poolKind || isOfPool(obj.GetName())) {
			text += "; " + messages(obj)
		}
	}
	return text
}

// lackOfPool returns what the pool should have removed, made or counted.
func (w *World) lackOfPool() string {
	root, all, desired := w.pool.owner.stored(), w.ofPool(), w.pool.owner.desired()
	for _, node := range w.Objects("Node") {
		if isOfPool(node.GetName()) && w.hasEnded(node) {
			return "the instance of Node " + node.GetName() + " has ended"
		}
	}
	if root == nil {
		return ""
	}
	for _, i := range all {
		node := w.nodeOn(i)
		lacks := w.pool.machines && w.withID("Machine", i.ProviderID) == nil
		if lacks || node == nil || node.GetLabels()["node.cluster.x-k8s.io/pool"] != RootName {
			return fmt.Sprintf("the instance %s has no Node with the label of the pool, or no Machine", i.Name)
		}
	}
	if refs, _, _ := unstructured.NestedSlice(root.Object, "status", "nodeRefs"); len(all) != desired || len(refs) != desired {
		return fmt.Sprintf("%d instances and %d Nodes of %d", len(all), len(refs), desired)
	}
	return ""
}

// calmPool takes the marks of Nodes that leave away; a provider writes its own again.
func (w *World) calmPool() {
	for _, node := range w.Objects("Node") {
		if isMarked(node) {
			w.patch(w.ctx, node, annotate(scale.DeleteAnnotation, nil))
		}
	}
}

// isMarked reports whether a Node is marked as one that leaves.
func isMarked(node *unstructured.Unstructured) bool {
	return has(node, scale.DeleteAnnotation)
}
