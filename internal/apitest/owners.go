package apitest

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func ownerCases() []Case {
	return []Case{
		{"the garbage collector removes the dependents of a deleted owner", "a Machine's objects go with it", ownersBackground},
		{"an owner of another UID counts as gone", "restored objects lose their dependents", ownersUID},
		{"an object with one living owner stays and loses the dead reference", "shared dependents", ownersShared},
		{"orphan deletion keeps the dependents", "sets may be replaced", ownersOrphan},
		{"foreground deletion keeps the owner until blocking dependents are gone", "clean-up in order", ownersForeground},
		{"deleting a Deployment removes its ReplicaSet and pods", "two generations of dependents", ownersDeployment},
	}
}

func ownedBy(owner client.Object, e Env) *corev1.ConfigMap {
	cm := e.configMap("child")
	cm.OwnerReferences = []metav1.OwnerReference{reference(owner)}
	return cm
}

func reference(owner client.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.GetName(), UID: owner.GetUID(),
		BlockOwnerDeletion: new(true)}
}

func ownersBackground(ctx context.Context, e Env) error {
	owner := e.configMap("owner")
	if err := e.Client.Create(ctx, owner); err != nil {
		return err
	}
	child := ownedBy(owner, e)
	return first(
		func() error { return e.Client.Create(ctx, child) },
		func() error {
			return e.Client.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationBackground))
		},
		func() error { return e.gone(ctx, child) },
	)
}

func ownersUID(ctx context.Context, e Env) error {
	owner := e.configMap("owner")
	if err := e.Client.Create(ctx, owner); err != nil {
		return err
	}
	child := ownedBy(owner, e)
	child.OwnerReferences[0].UID = "22222222-2222-4222-8222-222222222222"
	return first(
		func() error { return e.Client.Create(ctx, child) },
		func() error { return e.gone(ctx, child) },
		func() error { return e.read(ctx, owner) },
	)
}

func ownersShared(ctx context.Context, e Env) error {
	a, b := e.configMap("a"), e.configMap("b")
	if err := errors.Join(e.Client.Create(ctx, a), e.Client.Create(ctx, b)); err != nil {
		return err
	}
	child := ownedBy(a, e)
	child.OwnerReferences = append(child.OwnerReferences, reference(b))
	return first(
		func() error { return e.Client.Create(ctx, child) },
		func() error { return e.Client.Delete(ctx, a) },
		func() error {
			return eventually(ctx, "the dead reference to go", func(ctx context.Context) (bool, error) {
				err := e.read(ctx, child)
				return len(child.OwnerReferences) == 1 && child.OwnerReferences[0].UID == b.UID, err
			})
		},
	)
}

func ownersOrphan(ctx context.Context, e Env) error {
	owner := e.configMap("owner")
	if err := e.Client.Create(ctx, owner); err != nil {
		return err
	}
	child := ownedBy(owner, e)
	return first(
		func() error { return e.Client.Create(ctx, child) },
		func() error {
			return e.Client.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationOrphan))
		},
		func() error { return e.gone(ctx, owner) },
		func() error { return e.read(ctx, child) },
		func() error { return equal("owner references", len(child.OwnerReferences), 0) },
	)
}

func ownersForeground(ctx context.Context, e Env) error {
	owner := e.configMap("owner")
	if err := e.Client.Create(ctx, owner); err != nil {
		return err
	}
	child := ownedBy(owner, e)
	child.Finalizers = []string{"example.com/a"}
	return first(
		func() error { return e.Client.Create(ctx, child) },
		func() error {
			return e.Client.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationForeground))
		},
		func() error {
			return eventually(ctx, "the child to be deleted", func(ctx context.Context) (bool, error) {
				err := e.read(ctx, child)
				return child.DeletionTimestamp != nil, err
			})
		},
		func() error { return e.read(ctx, owner) },
		func() error {
			return holds(len(owner.Finalizers) == 1 && owner.Finalizers[0] == metav1.FinalizerDeleteDependents, "the owner's finalizers are %v",
				owner.Finalizers)
		},
		func() error {
			return e.patch(ctx, child, types.JSONPatchType,
				`[{"op":"test","path":"/metadata/finalizers/0","value":"example.com/a"},{"op":"remove","path":"/metadata/finalizers/0"}]`)
		},
		func() error { return errors.Join(e.gone(ctx, child), e.gone(ctx, owner)) },
	)
}

func ownersDeployment(ctx context.Context, e Env) error {
	d := e.deployment("web", 2)
	pods := func(ctx context.Context, want int) error {
		return eventually(ctx, "the pods of the deployment", func(ctx context.Context) (bool, error) {
			var list corev1.PodList
			err := e.Client.List(ctx, &list, client.InNamespace(e.Namespace))
			return len(list.Items) == want, err
		})
	}
	return first(
		func() error { return e.Client.Create(ctx, d) },
		func() error { return pods(ctx, 2) },
		func() error {
			var sets appsv1.ReplicaSetList
			err := e.Client.List(ctx, &sets, client.InNamespace(e.Namespace))
			return errors.Join(err, equal("replica sets", len(sets.Items), 1))
		},
		func() error {
			return e.Client.Delete(ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground))
		},
		func() error { return pods(ctx, 0) },
	)
}
