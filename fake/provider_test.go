package fake_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

// providers is a store with both providers running, and no reconciler: the test plays the Machine's part.
type providers struct {
	t      *testing.T
	client client.Client
}

func newProviders(t *testing.T, v contract.Version, infra fake.Infrastructure, bootstrap fake.Bootstrap) providers {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: fake.MachineGVK(), Status: true}}})
	p := providers{t: t, client: store.Client()}
	p.create(fake.CRD(fake.InfraMachineGVK(v), v), fake.CRD(fake.BootstrapConfigGVK(v), v))
	mgr, err := store.NewManager(ctrl.Options{Controller: config.Controller{SkipNameValidation: new(true)}})
	require.NoError(t, err)
	infra.Contract, bootstrap.Contract = v, v
	require.NoError(t, infra.SetupWithManager(mgr))
	require.NoError(t, bootstrap.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return p
}

func (p providers) create(objects ...client.Object) {
	p.t.Helper()
	for _, obj := range objects {
		require.NoError(p.t, p.client.Create(p.t.Context(), obj))
	}
}

func (p providers) get(obj *unstructured.Unstructured) *unstructured.Unstructured {
	p.t.Helper()
	fresh := &unstructured.Unstructured{}
	fresh.SetGroupVersionKind(obj.GroupVersionKind())
	err := p.client.Get(p.t.Context(), client.ObjectKeyFromObject(obj), fresh)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(p.t, err)
	return fresh
}

func (p providers) eventually(what string, check func() string) {
	p.t.Helper()
	var last string
	err := wait.PollUntilContextTimeout(p.t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == "", nil
	})
	require.NoError(p.t, err, "%s: %s", what, last)
}

// own does what a Machine's reconciler does first.
func (p providers) own(machine, obj *unstructured.Unstructured) {
	p.t.Helper()
	before := obj.DeepCopy()
	obj.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: machine.GetAPIVersion(), Kind: machine.GetKind(), Name: machine.GetName(), UID: machine.GetUID(), Controller: new(true),
	}})
	require.NoError(p.t, p.client.Patch(p.t.Context(), obj, client.MergeFrom(before)))
}

func TestProvidersFulfilTheContract(t *testing.T) {
	for _, v := range contract.Versions() {
		t.Run(string(v), func(t *testing.T) {
			p := newProviders(t, v, fake.Infrastructure{}, fake.Bootstrap{})
			machine := fake.Machine("m", fake.WithContract(v))
			infra, bootstrap := fake.InfraMachine(v, "m"), fake.BootstrapConfig(v, "m")
			p.create(machine, infra, bootstrap)
			p.own(machine, bootstrap)
			p.own(machine, infra)

			var config contract.BootstrapConfigState
			p.eventually("bootstrap data", func() string {
				require.NoError(t, contract.LayoutsOf(v).BootstrapConfig.Read(p.get(bootstrap), &config))
				if !config.DataSecretCreated {
					return "not created"
				}
				return ""
			})
			name, _ := config.DataSecretName.Get()
			var secret corev1.Secret
			require.NoError(t, p.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &secret))
			require.NotEmpty(t, secret.Data["value"])
			require.Equal(t, "demo", secret.Labels[contract.ClusterNameLabel])
			require.Equal(t, bootstrap.GetUID(), metav1.GetControllerOf(&secret).UID)

			var state contract.InfraMachineState
			require.NoError(t, contract.LayoutsOf(v).InfraMachine.Read(p.get(infra), &state))
			require.False(t, state.Provisioned, "the infrastructure must wait for the name of the data secret")

			before := machine.DeepCopy()
			require.NoError(t, unstructured.SetNestedField(machine.Object, name, "spec", "bootstrap", "dataSecretName"))
			require.NoError(t, p.client.Patch(t.Context(), machine, client.MergeFrom(before)))
			p.eventually("a Node", func() string {
				var node corev1.Node
				if err := p.client.Get(t.Context(), client.ObjectKey{Name: "m"}, &node); err != nil {
					return err.Error()
				}
				require.NoError(t, contract.LayoutsOf(v).InfraMachine.Read(p.get(infra), &state))
				if !state.Provisioned || state.ProviderID != node.Spec.ProviderID || !state.HasAddresses {
					return fmt.Sprintf("%+v", state)
				}
				return ""
			})

			require.NoError(t, p.client.Delete(t.Context(), infra))
			p.eventually("deletion", func() string {
				if p.get(infra) != nil {
					return "it is still there"
				}
				return ""
			})
		})
	}
}

// machineWithData creates a Machine whose bootstrap data is there, and owns its infrastructure object.
func (p providers) machineWithData(infra *unstructured.Unstructured) {
	p.t.Helper()
	machine := fake.Machine(infra.GetName())
	require.NoError(p.t, unstructured.SetNestedField(machine.Object, "data", "spec", "bootstrap", "dataSecretName"))
	p.create(machine, infra)
	p.own(machine, infra)
}

// A Machine that is deleted while its machine is made must learn its provider ID, or its Node stays.
func TestANodeJoinsOnlyWhenItsProviderIDAndTheFinalizerAreStored(t *testing.T) {
	stored := make(chan *unstructured.Unstructured, 1)
	infra := fake.InfraMachine(contract.V1Beta2, "m")
	var p providers
	p = newProviders(t, contract.V1Beta2, fake.Infrastructure{Node: func(obj *unstructured.Unstructured, id string) *corev1.Node {
		stored <- p.get(infra)
		return fake.Node(obj.GetName(), id)
	}}, fake.Bootstrap{})
	p.machineWithData(infra)
	at := <-stored
	var state contract.InfraMachineState
	require.NoError(t, contract.LayoutsOf(contract.V1Beta2).InfraMachine.Read(at, &state))
	require.Equal(t, fake.ProviderID(at), state.ProviderID)
	require.NotEmpty(t, at.GetFinalizers())
	require.False(t, state.Provisioned)
}

func TestNoNodeJoinsForAnObjectThatIsDeletedMeanwhile(t *testing.T) {
	deleted, kept := fake.InfraMachine(contract.V1Beta2, "deleted"), fake.InfraMachine(contract.V1Beta2, "kept")
	var p providers
	p = newProviders(t, contract.V1Beta2, fake.Infrastructure{ProviderOptions: fake.ProviderOptions{
		Delay: func(obj *unstructured.Unstructured) time.Duration {
			if obj.GetName() == deleted.GetName() { // the provider does not see it in this pass
				require.NoError(t, client.IgnoreNotFound(p.client.Delete(t.Context(), deleted.DeepCopy())))
			}
			return 0
		},
	}}, fake.Bootstrap{})
	p.machineWithData(deleted)
	p.eventually("deletion", func() string {
		if p.get(deleted) != nil {
			return "it is still there"
		}
		return ""
	})
	p.machineWithData(kept) // the provider has one worker
	node := func(name string) error {
		return p.client.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Node{})
	}
	p.eventually("the Node of the other", func() string {
		if err := node(kept.GetName()); err != nil {
			return err.Error()
		}
		return ""
	})
	require.True(t, apierrors.IsNotFound(node(deleted.GetName())))
}

func TestAPoolProviderTakesMarkedMachinesFirst(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	own := schema.GroupVersionKind{Group: "machines.example.com", Version: "v1", Kind: "MachinePool"}
	for key, owner := range map[string]schema.GroupVersionKind{
		"cluster.x-k8s.io/delete-machine": fake.MachinePoolGVK(), "machines.example.com/delete-machine": own,
	} {
		t.Run(key, func(t *testing.T) { takesMarkedFirst(t, owner, key) })
	}
}

func takesMarkedFirst(t *testing.T, owner schema.GroupVersionKind, key string) {
	t.Helper()
	kinds := []fake.ServedKind{{GVK: fake.MachineGVK(), Status: true}, {GVK: owner, Status: true}}
	store := fake.NewStore(fake.Options{Kinds: kinds})
	p := providers{t: t, client: store.Client()}
	v := contract.V1Beta2
	p.create(fake.CRD(fake.InfraMachineGVK(v), v), fake.CRD(fake.InfraMachinePoolGVK(v), v))
	mgr, err := store.NewManager(ctrl.Options{Controller: config.Controller{SkipNameValidation: new(true)}})
	require.NoError(t, err)
	require.NoError(t, (&fake.PoolInfrastructure{Owner: owner, Machines: true, NoNode: true}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	pool := fake.MachinePool("pool", 4, fake.WithField("data", "spec", "template", "spec", "bootstrap", "dataSecretName"))
	pool.SetGroupVersionKind(owner)
	p.create(pool)
	infraPool := fake.InfraMachinePool(v, "pool")
	infraPool.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(pool, owner)})
	p.create(infraPool)
	infra := func(n int) *unstructured.Unstructured { return fake.InfraMachine(v, fmt.Sprintf("pool-%d", n)) }
	machine := func(n int) *unstructured.Unstructured {
		m := &unstructured.Unstructured{}
		m.SetGroupVersionKind(fake.MachineGVK())
		m.SetNamespace("default")
		m.SetName(infra(n).GetName())
		return m
	}
	for n := range 4 {
		p.eventually("instances", func() string { return map[bool]string{true: "one is missing"}[p.get(infra(n)) == nil] })
		m := machine(n)
		m.SetFinalizers([]string{"example.com/machine"})
		m.SetAnnotations(map[string]map[string]string{"pool-2": {key: ""}}[m.GetName()])
		p.create(m)
	}
	scaleTo := func(replicas, leaving int) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
		require.NoError(t, p.client.Patch(t.Context(), pool.DeepCopy(), patch))
		p.eventually("a Machine to be deleted", func() string {
			return map[bool]string{true: "it is not"}[p.get(machine(leaving)).GetDeletionTimestamp() == nil]
		})
		require.NoError(t, p.client.Delete(t.Context(), infra(leaving))) // as the reconciler of Machines does, which lets go then
		held := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		require.NoError(t, p.client.Patch(t.Context(), machine(leaving), held))
		p.eventually("the instance to go", func() string {
			n, _, _ := unstructured.NestedInt64(p.get(infraPool).Object, "status", "replicas")
			return map[bool]string{true: "it is counted"}[n != int64(replicas)]
		})
	}
	scaleTo(3, 2)
	for _, n := range []int{0, 1, 3} {
		require.Nil(t, p.get(machine(n)).GetDeletionTimestamp(), "pool-%d was not marked", n)
	}
	scaleTo(2, 0)
	for _, n := range []int{1, 3} {
		require.Nil(t, p.get(machine(n)).GetDeletionTimestamp(), "pool-%d is not the oldest", n)
	}
}

func TestProvidersKeepTheFinalizersOfOthers(t *testing.T) {
	const theirs = "example.com/theirs"
	v := contract.V1Beta2
	p := newProviders(t, v, fake.Infrastructure{}, fake.Bootstrap{})
	machine, infra, bootstrap := fake.Machine("m"), fake.InfraMachine(v, "m"), fake.BootstrapConfig(v, "m")
	p.create(machine)
	for _, obj := range []*unstructured.Unstructured{infra, bootstrap} {
		obj.SetFinalizers([]string{theirs})
		p.create(obj)
		p.own(machine, obj)
	}
	before := machine.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(machine.Object, "data", "spec", "bootstrap", "dataSecretName"))
	require.NoError(t, p.client.Patch(t.Context(), machine, client.MergeFrom(before)))
	for _, obj := range []*unstructured.Unstructured{infra, bootstrap} {
		p.eventually("both finalizers", func() string {
			return map[bool]string{true: "one is missing"}[len(p.get(obj).GetFinalizers()) < 2]
		})
		require.Contains(t, p.get(obj).GetFinalizers(), theirs)
		require.NoError(t, p.client.Delete(t.Context(), obj))
		p.eventually("only the other finalizer", func() string {
			return map[bool]string{true: "the provider's is there"}[len(p.get(obj).GetFinalizers()) > 1]
		})
		require.Equal(t, []string{theirs}, p.get(obj).GetFinalizers())
	}
}
