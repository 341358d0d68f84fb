package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// pool is the provider of the MachinePool of a history, which fulfils the InfraMachinePool contract.
type pool struct {
	owner *owner
	// requestsDrain: the provider marks the Nodes of instances that leave, and waits until they are drained. elsewhere: spec.replicas is
	// managed by the provider, as wanted. machines: it makes an infrastructure object for each instance, and the pool a Machine.
	requestsDrain, elsewhere, machines bool
	wanted                             int
	// wrong is how the list is.
	wrong Fault
	made  int
}

// ofPool are the instances of the pool that have not ended.
func (w *World) ofPool() []cloud.Instance {
	return slices.DeleteFunc(w.instances(), func(i cloud.Instance) bool { return !isOfPool(i.Name) || i.State == cloud.Deleting })
}

// hasEnded reports whether the instance of a Node of the pool has ended, or is about to.
func (w *World) hasEnded(node *unstructured.Unstructured) bool { return !runsOnAny(node, w.ofPool()) }

// isRecorded reports whether the pool has recorded a Node.
func (w *World) isRecorded(node *unstructured.Unstructured) bool {
	root := w.pool.owner.stored()
	return root != nil && strings.Contains(textAt(root, "status", "nodeRefs"), string(node.GetUID()))
}

// poolProvider is the actor. An instance that is gone does not answer any more, and the cloud controller manager deletes its Node if no
// pool has recorded that. Without its infrastructure object, a pool has no instances.
func poolProvider(ctx context.Context, w *World) (all []due) {
	if infra := w.object(poolInfraKind, namespace, RootName); infra == nil {
		for _, i := range w.ofPool() {
			all = append(all, due{do: func() { w.ends("provider", i) }})
		}
	} else {
		all = append(all, w.dueFor(infra))
	}
	instances := w.instances()
	for _, node := range w.Objects("Node") {
		switch {
		case !isOfPool(node.GetName()), runsOnAny(node, instances):
		case readinessOf(node) != "Unknown":
			all = append(all, due{do: func() { w.setReady(ctx, node, "Unknown") }})
		case w.calm && !w.isRecorded(node):
			all = append(all, due{do: func() { w.collects(ctx, node) }})
		}
	}
	return slices.DeleteFunc(all, func(d due) bool { return d.do == nil })
}

// scales returns the next thing that the provider does for a pool that stays; nil when everything is as in the spec
// of the pool, and reported.
func (w *World) scales(infra *unstructured.Unstructured) func() {
	p, all := w.pool, w.ofPool()
	switch want := p.owner.desired(); {
	case p.owner.leaves():
		return nil
	case p.elsewhere && p.wanted != want:
		return w.sets(p.owner.named(), p.wanted, "spec", "replicas")
	case len(all) < want:
		return func() { w.starts(infra) }
	default:
		for _, i := range all[want:] {
			if do := w.removesInstance(i); do != nil {
				return do
			}
		}
	}
	for _, i := range all {
		if p.machines && w.object(partGVK().Kind, namespace, i.Name) == nil {
			return func() { w.addsPart(i, infra) }
		}
	}
	return w.poolReports(infra, all)
}

func (w *World) starts(infra *unstructured.Unstructured) {
	r := cloud.Request{Name: w.poolName(), Cluster: "c1", UserData: []byte(versionOf(w.pool.owner.stored(), "spec", "template"))}
	r.Token = fmt.Sprint(poolPrefix, w.pool.made)
	w.makes(infra, r)
}

// removesInstance ends an instance: by the deletion of its Machine or, where the provider requests drains, when its Node is drained. It is
// nil until then.
func (w *World) removesInstance(i cloud.Instance) func() {
	switch node, machine := w.nodeOn(i), w.withID("Machine", i.ProviderID); {
	case machine != nil && machine.GetDeletionTimestamp() == nil:
		return w.deleting(machine)
	case machine == nil && (!w.pool.requestsDrain || node == nil || reportsDrained(node)):
		return func() { w.ends("provider", i) }
	case machine == nil && !isMarked(node):
		return w.sets(node, "", "metadata", "annotations", scale.DeleteAnnotation)
	}
	return nil
}

// addsPart creates the infrastructure object of an instance.
func (w *World) addsPart(i cloud.Instance, infra *unstructured.Unstructured) {
	part := fake.InfraMachine(contract.V1Beta2, i.Name, fake.WithLabels(poolLabels()), fake.WithField(i.ProviderID, "spec", "providerID"))
	owner := metav1.OwnerReference{APIVersion: infra.GetAPIVersion(), Kind: infra.GetKind(), Name: infra.GetName(), UID: infra.GetUID()}
	part.SetOwnerReferences([]metav1.OwnerReference{owner})
	w.note("provider", "create "+part.GetKind()+" "+i.Name, textOf(w.store.Client().Create(w.ctx, part)))
}

// poolLabels are those by which a pool finds the infrastructure objects of its instances.
func poolLabels() map[string]string {
	return map[string]string{contract.PoolNameLabel: RootName, contract.ClusterNameLabel: "c1"}
}

// poolName is a name that nothing has: in half of the cases, one that an instance may have had before.
func (w *World) poolName() string {
	w.pool.made++
	for n := w.choices.pick(2) * w.pool.made; ; n++ {
		name := fmt.Sprint(poolPrefix, n)
		is := func(i cloud.Instance) bool { return i.Name == name }
		if cmp.Or(w.object(partGVK().Kind, namespace, name), w.object("Machine", namespace, name)) == nil &&
			!slices.ContainsFunc(w.instances(), is) {
			return name
		}
	}
}

// poolReports writes what the provider reports, if that has changed. A list that lacks an instance is no list of all
// instances at any moment: the status counts more before it gets another one.
func (w *World) poolReports(infra *unstructured.Unstructured, all []cloud.Instance) func() {
	var ids []string
	for _, i := range all {
		ids = append(ids, i.ProviderID)
	}
	replicas := int64(len(ids))
	status := map[string]any{"replicas": replicas, "ready": true, "initialization": map[string]any{"provisioned": true}}
	if w.pool.machines {
		status["infrastructureMachineKind"] = partGVK().Kind
	}
	has, _, _ := unstructured.NestedStringSlice(infra.Object, "spec", "providerIDList")
	n, counted, _ := unstructured.NestedInt64(infra.Object, "status", "replicas")
	switch ids = w.lists(ids); {
	case !slices.Equal(has, ids) && (!counted || n >= replicas || len(ids) >= int(replicas)):
		return w.sets(infra, ids, "spec", "providerIDList")
	case !counted || n != replicas || textAt(infra, "status", "initialization", "provisioned") != "true": // somebody has pruned it
		return w.sets(infra, status, "status")
	}
	return nil
}

// lists is what the provider lists of its instances; nil for nothing.
func (w *World) lists(ids []string) []string {
	switch wrong := w.pool.wrong; {
	case len(ids) == 0, w.calm:
	case wrong == PoolForgets:
		ids = ids[1:]
	case wrong == PoolRepeats:
		slices.Reverse(ids)
		ids = append(ids, ids[0])
	case wrong == PoolRespells:
		for i, id := range ids {
			ids[i] = strings.ToUpper(id)
		}
	}
	return ids
}
