package apitest

import (
	"context"

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

func ownersBackground(ctx context.Context, e Env) {
	owner := e.madeConfigMap(ctx, "owner")
	child := ownedBy(owner, e)
	e.must(e.Client.Create(ctx, child))
	e.must(e.Client.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	e.must(e.gone(ctx, child))
}

func ownersUID(ctx context.Context, e Env) {
	owner := e.madeConfigMap(ctx, "owner")
	child := ownedBy(owner, e)
	child.OwnerReferences[0].UID = "22222222-2222-4222-8222-222222222222"
	e.must(e.Client.Create(ctx, child))
	e.must(e.gone(ctx, child))
	e.must(e.read(ctx, owner))
}

func ownersShared(ctx context.Context, e Env) {
	a, b := e.configMap("a"), e.configMap("b")
	e.must(e.Client.Create(ctx, a), e.Client.Create(ctx, b))
	child := ownedBy(a, e)
	child.OwnerReferences = append(child.OwnerReferences, reference(b))
	e.must(e.Client.Create(ctx, child))
	e.must(e.Client.Delete(ctx, a))
	e.must(eventually(ctx, "the dead reference to go", func(ctx context.Context) (bool, error) {
		err := e.read(ctx, child)
		return len(child.OwnerReferences) == 1 && child.OwnerReferences[0].UID == b.UID, err
	}))
}

func ownersOrphan(ctx context.Context, e Env) {
	owner := e.madeConfigMap(ctx, "owner")
	child := ownedBy(owner, e)
	e.must(e.Client.Create(ctx, child))
	e.must(e.Client.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	e.must(e.gone(ctx, owner))
	e.must(e.read(ctx, child))
	e.must(equal("owner references", len(child.OwnerReferences), 0))
}

func ownersForeground(ctx context.Context, e Env) {
	owner := e.madeConfigMap(ctx, "owner")
	child := ownedBy(owner, e)
	child.Finalizers = []string{"example.com/a"}
	e.must(e.Client.Create(ctx, child))
	e.must(e.Client.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	e.must(eventually(ctx, "the child to be deleted", func(ctx context.Context) (bool, error) {
		err := e.read(ctx, child)
		return child.DeletionTimestamp != nil, err
	}))
	e.must(e.read(ctx, owner))
	e.must(holds(len(owner.Finalizers) == 1 && owner.Finalizers[0] == metav1.FinalizerDeleteDependents, "the owner's finalizers are %v",
		owner.Finalizers))
	e.must(e.patch(ctx, child, types.JSONPatchType,
		`[{"op":"test","path":"/metadata/finalizers/0","value":"example.com/a"},{"op":"remove","path":"/metadata/finalizers/0"}]`))
	e.must(e.gone(ctx, child), e.gone(ctx, owner))
}

func ownersDeployment(ctx context.Context, e Env) {
	d := e.deployment("web", 2)
	pods := func(ctx context.Context, want int) error {
		return eventually(ctx, "the pods of the deployment", func(ctx context.Context) (bool, error) {
			var list corev1.PodList
			err := e.Client.List(ctx, &list, client.InNamespace(e.Namespace))
			return len(list.Items) == want, err
		})
	}
	e.must(e.Client.Create(ctx, d))
	e.must(pods(ctx, 2))
	var sets appsv1.ReplicaSetList
	err := e.Client.List(ctx, &sets, client.InNamespace(e.Namespace))
	e.must(err, equal("replica sets", len(sets.Items), 1))
	e.must(e.Client.Delete(ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	e.must(pods(ctx, 0))
}
