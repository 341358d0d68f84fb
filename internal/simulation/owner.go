package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset/rollout"
)

// Names of owners, and of a Machine that the labels of the first one select and that has another owner. An owner in another namespace has
// the same name and the same labels as the first one.
const (
	RootName    = "workers"
	ForeignName = "foreign"
	extraName   = "extra"
	singleName  = "single"
)

// namespace is that of the first owner, and elsewhere is another one.
const (
	namespace = "default"
	elsewhere = "other"
)

// revisionLabel of a template and its Machines is the last revision: a deployment changes labels in place, also those of its old sets.
const revisionLabel = "example.com/revision"

// owner is an object of which users expect Machines or instances: a MachineDeployment, a MachineSet, a MachinePool, or a Machine by itself.
type owner struct {
	world                 *World
	kind, namespace, name string
	// strategy is how a deployment replaces Machines, with surge and unavailable.
	strategy           rollout.Type
	surge, unavailable intstr.IntOrString
	// revision is the last one that a user requested.
	revision int
	// most and least are how many Machines were ever wanted.
	most, least int
	// blocked: the templates of revision do not exist. elsewhere: the owner names another cluster.
	blocked, elsewhere bool
	// again: a person has deleted a set again that was to orphan its Machines.
	again bool
	// availableAt has, by set, in how many places a Machine was available when a manager last lowered the replicas of the set.
	availableAt map[types.UID]map[types.UID]int
	// replaced are the Machines that were deleted because a health check has marked them.
	replaced []types.UID
	// unknownAt has how many Machines of other sets were unknown when a manager last raised the replicas of one.
	unknownAt map[types.UID]int
}

func (w *World) newOwner(kind, namespace, name string, replicas int) *owner {
	return &owner{
		world: w, kind: kind, namespace: namespace, name: name, most: replicas, least: replicas,
		availableAt: map[types.UID]map[types.UID]int{}, unknownAt: map[types.UID]int{},
	}
}

// drawOwners decides which owners a history has: a pool, a deployment or a set, or two of these, and up to two others beside them.
func (w *World) drawOwners() {
	set, deployment := "MachineSet", "MachineDeployment"
	if w.pool != nil {
		w.owners = append(w.owners, w.pool.owner)
	}
	if w.pool == nil || w.health != nil || w.choices.pick(2) == 0 {
		w.owners = append(w.owners, w.newOwner([]string{set, deployment}[w.choices.pick(2)], namespace, RootName, 3))
	}
	others := []*owner{
		w.newOwner(set, elsewhere, RootName, 1), w.newOwner(deployment, elsewhere, RootName, 2), w.newOwner(deployment, namespace, extraName, 1),
		w.newOwner("Machine", namespace, singleName, 1), w.newOwner(set, namespace, extraName, 2),
		w.newOwner("Machine", elsewhere, singleName, 1),
	}
	if w.provided != nil {
		// The infrastructure object of a single Machine would be made by a person.
		others = slices.DeleteFunc(others, func(o *owner) bool { return o.kind == "Machine" })
	}
	for range w.choices.pick(3) {
		o := others[w.choices.pick(len(others))]
		if !slices.ContainsFunc(w.owners, func(is *owner) bool {
			return is.kind != poolKind && is.namespace == o.namespace && is.name == o.name
		}) {
			w.owners = append(w.owners, o)
		}
	}
	for _, o := range w.owners {
		if o.kind == deployment {
			o.drawStrategy()
		}
	}
}

// drawStrategy decides how a deployment replaces Machines. Half of them roll within bounds that are numbers.
func (o *owner) drawStrategy() {
	w := o.world
	of := [][2]string{{"1", "0"}, {"0", "1"}, {"1", "1"}, {"2", "0"}, {"0", "2"}, {"50%", "0%"}, {"0%", "50%"}, {"25%", "25%"}}
	types := []rollout.Type{rollout.RollingUpdate, rollout.RollingUpdate, rollout.OnDelete, rollout.Recreate, rollout.InPlaceAuto}
	if w.parts {
		types = types[:4] // nothing updates an infrastructure object
	}
	o.strategy = oneOf(w, types...)
	bounds := oneOf(w, of...)
	o.surge, o.unavailable = intstr.Parse(bounds[0]), intstr.Parse(bounds[1])
}

// bounds are the surge and the unavailability for a number of Machines.
func (o *owner) bounds(replicas int) (surge, unavailable int) {
	if o.kind != "MachineDeployment" {
		return 0, 0
	}
	s, err := rollout.Resolve(o.strategy, contract.Some(o.surge), contract.Some(o.unavailable), replicas)
	o.world.fail("a strategy is valid", err)
	if o.strategy != rollout.RollingUpdate && o.strategy != rollout.InPlaceAuto {
		return 0, s.MaxUnavailable
	}
	return s.MaxSurge, s.MaxUnavailable
}

// populate creates the owners, and a Machine of somebody else.
func (w *World) populate(ctx context.Context) error {
	w.drawOwners()
	w.drawClusters()
	foreign := fake.Machine(ForeignName, fake.WithLabels(map[string]string{"pool": RootName}))
	unstructured.RemoveNestedField(foreign.Object, "spec", "clusterName") // its Nodes would be those of the management cluster
	unstructured.RemoveNestedField(foreign.Object, "spec", "infrastructureRef")
	unstructured.RemoveNestedField(foreign.Object, "spec", "bootstrap", "configRef")
	foreign.Object["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{ //nolint:forcetypeassert // it was made above
		"apiVersion": "example.com/v1", "kind": "Fleet", "name": "other", "uid": "other-uid", "controller": true,
	}}
	var errs []error
	for _, name := range []string{elsewhere, misplaced} {
		errs = append(errs, w.store.Client().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	minReady := w.choices.pick(3) == 0
	for _, o := range w.owners {
		errs = append(errs, o.create(ctx, minReady))
	}
	return errors.Join(append(errs, w.store.Client().Create(ctx, foreign), w.deploy(ctx), w.addChecks(ctx))...)
}

// create creates an owner as a user does.
func (o *owner) create(ctx context.Context, minReady bool) error {
	w := o.world
	cluster := w.clusterOf(o.namespace).name
	spec := map[string]any{"clusterName": cluster, "version": "v1.36.0", "bootstrap": map[string]any{"dataSecretName": "data"}}
	if a := w.apps; a != nil && a.limit > 0 {
		spec["deletion"] = map[string]any{"nodeDrainTimeoutSeconds": int64(a.limit / time.Second)}
	}
	if minReady {
		spec["minReadySeconds"] = int64(20)
	}
	obj := o.named()
	switch {
	case o.kind == poolKind:
		return w.createPool(ctx, spec)
	case o.kind == "Machine": // its infrastructure object would be its own
		obj.SetLabels(map[string]string{"pool": o.name, contract.ClusterNameLabel: cluster})
		obj.Object["spec"] = spec
		return w.store.Client().Create(ctx, obj)
	}
	delete(spec, "bootstrap")
	o.refer(spec)
	root := map[string]any{
		"clusterName": cluster, "replicas": int64(o.most), "selector": map[string]any{"matchLabels": map[string]any{"pool": o.name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"pool": o.name, revisionLabel: "0"}}, "spec": spec,
		},
	}
	if o.kind == "MachineDeployment" {
		root["rollout"] = map[string]any{"strategy": o.strategySpec()}
	}
	obj.Object["spec"] = root
	return errors.Join(o.addTemplates(ctx, 0), w.store.Client().Create(ctx, obj))
}

func (o *owner) strategySpec() map[string]any {
	name := string(o.strategy)
	if o.strategy == rollout.InPlaceAuto {
		name = contract.RolloutInPlace
	}
	value := func(v intstr.IntOrString) any {
		if v.Type == intstr.Int {
			return int64(v.IntVal)
		}
		return v.StrVal
	}
	return map[string]any{"type": name, "rollingUpdate": map[string]any{
		"maxSurge": value(o.surge), "maxUnavailable": value(o.unavailable),
	}}
}

// named returns an object with the kind and the name of the owner.
func (o *owner) named() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(kindOf(o.kind))
	obj.SetNamespace(o.namespace)
	obj.SetName(o.name)
	return obj
}

// stored returns the owner as the API server has it; nil without.
func (o *owner) stored() *unstructured.Unstructured {
	return o.world.object(o.kind, o.namespace, o.name)
}

// leaves reports whether the owner is gone or being deleted.
func (o *owner) leaves() bool {
	obj := o.stored()
	return obj == nil || obj.GetDeletionTimestamp() != nil
}

// desired is how many Machines the owner has to have; 0 without it.
func (o *owner) desired() int {
	switch {
	case o.leaves():
		return 0
	case o.kind == "Machine":
		return 1
	}
	return int(replicasIn(o.stored()))
}

// noteDesired notes a change of the desired number.
func (o *owner) noteDesired() {
	if !o.leaves() {
		o.most, o.least = max(o.most, o.desired()), min(o.least, o.desired())
	}
}

// chosen returns one of the owners that match; nil without.
func (w *World) chosen(match func(*owner) bool) *owner {
	return oneOf(w, slices.DeleteFunc(slices.Clone(w.owners), func(o *owner) bool { return o.stored() == nil || !match(o) })...)
}

func (o *owner) hasReplicas() bool { return o.kind != "Machine" }
func (o *owner) hasSets() bool     { return o.kind == "MachineSet" || o.kind == "MachineDeployment" }
func (o *owner) deploys() bool     { return o.kind == "MachineDeployment" }

// mayMove reports whether an owner of Machines gets another cluster: what was made for none before is rightly made for the new one.
func (o *owner) mayMove() bool { return o.hasSets() && (o.elsewhere || len(o.owned()) > 0) }

// belong notes whose a new object is, which later changes of its labels do not alter.
func (w *World) belong(obj *unstructured.Unstructured) {
	if w.belongs[obj.GetUID()] != nil || obj.GetName() == ForeignName {
		return
	}
	for _, o := range w.owners {
		if o.namespace == obj.GetNamespace() && (o.kind == obj.GetKind() && o.name == obj.GetName() || obj.GetLabels()["pool"] == o.name) {
			w.belongs[obj.GetUID()] = o
		}
	}
}

// ownerOf returns the owner of a set or a Machine; nil for an object of somebody else.
func (w *World) ownerOf(obj *unstructured.Unstructured) *owner { return w.belongs[obj.GetUID()] }

// owned are the Machines of the owner.
func (o *owner) owned() []*unstructured.Unstructured {
	return slices.DeleteFunc(o.world.owned(), func(m *unstructured.Unstructured) bool { return o.world.ownerOf(m) != o })
}

// owned are the Machines of all owners, without those that a set has orphaned.
func (w *World) owned() []*unstructured.Unstructured {
	return slices.DeleteFunc(w.Objects("Machine"), func(m *unstructured.Unstructured) bool {
		return isMisplaced(m) || !ownedBySet(m) && !w.isSingle(m)
	})
}

// isSingle reports whether a Machine is an owner.
func (w *World) isSingle(m *unstructured.Unstructured) bool {
	o := w.ownerOf(m)
	return o != nil && o.kind == "Machine"
}
