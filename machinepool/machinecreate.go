package machinepool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// madeGrace is how long the pool does not create a Machine again that the cache does not show. It may have been deleted meanwhile.
const madeGrace = 30 * time.Second

// decideMade divides missing Machines into those to create and those that were created a moment ago, with the time of the creation. again
// is when the first of the latter counts as missing; zero without any.
func decideMade(
	missing []string, made map[string]time.Time, now time.Time,
) (names []string, waiting map[string]time.Time, again time.Duration) {
	waiting = map[string]time.Time{}
	for _, name := range missing {
		if left := made[name].Add(madeGrace).Sub(now); left > 0 {
			waiting[name], again = made[name], pass.Soonest(again, left)
			continue
		}
		names = append(names, name)
	}
	return names, waiting, again
}

// kubelets are the versions of instances, by the names of their InfraMachines: an instance can be older than its Machine.
func (p *Scope) kubelets(names []string) map[string]string {
	layout := contract.InfraMachine(p.infrastructure.Contract)
	if len(names) == 0 || layout == nil {
		return nil
	}
	rules, ids := p.env.options.Matching, make(map[string]string, len(p.match.Nodes))
	for _, node := range p.match.Nodes {
		ids[rules.Key(node.Spec.ProviderID)] = node.Status.NodeInfo.KubeletVersion
	}
	versions := make(map[string]string, len(names))
	for _, name := range names {
		id, _, err := layout.ProviderID.Get(p.machines.infra[name].Object)
		if key := rules.Key(id); err == nil && key != "" {
			versions[name] = ids[key]
		}
	}
	return versions
}

func (p *Scope) createMachines(ctx context.Context, missing []string) error {
	names, waiting, again := decideMade(missing, p.mem().made, p.Now)
	p.mem().made = waiting
	p.Requeue(again)
	labels, annotations := p.machineMetadata()
	kubelets := p.kubelets(names)
	made, there, foreign := make([]bool, len(names)), make([]bool, len(names)), make([]bool, len(names))
	err := p.each(len(names), func(i int) error {
		machine, err := p.env.kinds.NewMachine(Seed{
			Key:    types.NamespacedName{Namespace: p.State.Key.Namespace, Name: names[i]},
			Labels: maps.Clone(labels), Annotations: maps.Clone(annotations), // others are made at the same time
			Owner: p.OwnerReference(), ClusterName: p.State.ClusterName, Version: cmp.Or(kubelets[names[i]], p.State.Template.Version),
			Infrastructure:        contract.Ref{Group: p.machines.gvk.Group, Kind: p.machines.gvk.Kind, Name: names[i]},
			InfrastructureVersion: p.machines.gvk.Version,
		})
		obj, ok := machine.(client.Object)
		if err != nil || !ok {
			return errors.Join(err, fmt.Errorf("make Machine %s: got %T", names[i], machine))
		}
		err = p.env.frame.Ports.Client.Create(ctx, obj)
		if apierrors.IsAlreadyExists(err) {
			there[i], err = p.alreadyThere(ctx, names[i])
			there[i], foreign[i] = there[i] && err == nil, errors.Is(err, errForeignMachine)
			return err
		}
		made[i] = err == nil
		if err != nil {
			return fmt.Errorf("create Machine %s: %w", names[i], err)
		}
		return nil
	})
	var told []string
	for i, name := range names {
		if made[i] || there[i] {
			p.mem().made[name] = p.Now
		}
		if made[i] {
			told = append(told, name)
		}
		if foreign[i] {
			p.machines.foreign = append(p.machines.foreign, name)
		}
	}
	if len(told) > 0 {
		p.Eventf(corev1.EventTypeNormal, EventMachinesCreated, pass.ActionReconcile, "Created Machines %s", pass.Named(told))
	}
	return err
}

// Seed is what a pool decides about the Machine that represents one of its instances.
type Seed struct {
	Key                 types.NamespacedName
	Labels, Annotations map[string]string
	// Owner is the reference by which the pool controls the Machine.
	Owner       metav1.OwnerReference
	ClusterName string
	// Infrastructure is the InfraMachine of the instance, and InfrastructureVersion its API version, for shapes that name it.
	Infrastructure        contract.Ref
	InfrastructureVersion string
	// Version is the Kubernetes version of the instance: that of its kubelet or, while its Node is not known, that of the template.
	Version string
}

// ClusterAPI returns the kinds of cluster.x-k8s.io in a version, contract.V1Beta1 or contract.V1Beta2; for any other the error matches
// contract.ErrUnknownVersion.
func ClusterAPI(v contract.Version) (Kinds, error) {
	pool, machine := contract.MachinePoolV1Beta2(), contract.MachineV1Beta2()
	switch v {
	case contract.V1Beta2:
	case contract.V1Beta1:
		pool, machine = contract.MachinePoolV1Beta1(), contract.MachineV1Beta1()
	default:
		return Kinds{}, fmt.Errorf("%w: MachinePools have %s and %s, not %q", contract.ErrUnknownVersion, contract.V1Beta1, contract.V1Beta2, v)
	}
	gvk := func(kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: string(v), Kind: kind}
	}
	return Kinds{
		Pool: contract.Unstructured(gvk("MachinePool"), pool), Machine: contract.Unstructured(gvk("Machine"), machine),
		NewMachine: func(s Seed) (contract.Object, error) { return newMachine(gvk("Machine"), v, s), nil },
	}, nil
}

// newMachine makes a Machine of cluster.x-k8s.io. Its bootstrap data is that of the pool, so that its own secret name is the empty one,
// which says that nothing is to be waited for. Rule: Cluster API's MachinePool controller.
func newMachine(gvk schema.GroupVersionKind, v contract.Version, s Seed) *unstructured.Unstructured {
	ref := map[string]any{"kind": s.Infrastructure.Kind, "name": s.Infrastructure.Name}
	if v == contract.V1Beta2 {
		ref["apiGroup"] = s.Infrastructure.Group
	} else {
		ref["apiVersion"] = schema.GroupVersion{Group: s.Infrastructure.Group, Version: s.InfrastructureVersion}.String()
		ref["namespace"] = s.Key.Namespace
	}
	spec := map[string]any{
		"clusterName": s.ClusterName, "infrastructureRef": ref, "bootstrap": map[string]any{"dataSecretName": ""},
	}
	if s.Version != "" {
		spec["version"] = s.Version
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(s.Key.Namespace)
	u.SetName(s.Key.Name)
	u.SetLabels(maps.Clone(s.Labels))
	u.SetAnnotations(maps.Clone(s.Annotations))
	u.SetOwnerReferences([]metav1.OwnerReference{s.Owner})
	return u
}
