package machine_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake/testenv"
	"github.com/machinist-dev/machinist/machine"
)

// uninstalled is a cache of an API server without the kinds of rollouts.
type uninstalled struct {
	cache.Cache

	asked, waited atomic.Int32
}

func (c *uninstalled) GetInformer(_ context.Context, obj client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	var o cache.InformerGetOptions
	for _, option := range options {
		option(&o)
	}
	if o.BlockUntilSynced == nil || *o.BlockUntilSynced {
		c.waited.Add(1)
	}
	c.asked.Add(1)
	gvk := obj.GetObjectKind().GroupVersionKind()
	return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// source.Kind logs an error every ten seconds for as long as its kind is not installed.
func TestKindsOfRolloutsThatAreNotInstalledAreWaitedForWithoutALog(t *testing.T) {
	t.Parallel()
	sets := contract.Unstructured(capi("v1beta2", "MachineSet"), contract.MachineSetV1Beta2())
	deployments := contract.Unstructured(capi("v1beta2", "MachineDeployment"), contract.MachineDeploymentV1Beta2())
	c := &uninstalled{}
	rollouts, err := machine.RolloutFromCache(c, sets, deployments)
	require.NoError(t, err)
	events := rollouts.Source(func(types.NamespacedName) []reconcile.Request { return nil })
	require.NoError(t, events.Start(t.Context(), nil))
	(&testenv.Env{T: t}).Eventually("both kinds to be looked for", func() string {
		if c.asked.Load() < 2 {
			return "they are not"
		}
		return ""
	})
	require.Zero(t, c.waited.Load(), "a source was started that logs")
}

// shelf is a cache of some unstructured objects, by kind and name.
type shelf struct {
	cache.Cache

	objects map[string]*unstructured.Unstructured
	asked   int // for informers
}

func (s *shelf) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	u, _ := obj.(*unstructured.Unstructured)
	have, found := s.objects[u.GetKind()+" "+key.Name]
	if !found {
		return apierrors.NewNotFound(schema.GroupResource{Resource: u.GetKind()}, key.Name)
	}
	u.Object = have.Object
	return nil
}

func (s *shelf) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	s.asked++
	return listed{}, nil
}

type listed struct{ cache.Informer }

func (listed) HasSynced() bool { return true }

func TestARolloutIsReadFromTheCache(t *testing.T) {
	t.Parallel()
	sets := contract.Unstructured(capi("v1beta2", "MachineSet"), contract.MachineSetV1Beta2())
	deployments := contract.Unstructured(capi("v1beta2", "MachineDeployment"), contract.MachineDeploymentV1Beta2())
	set, d := testenv.Object(sets.GVK, "s"), testenv.Object(deployments.GVK, "d")
	set.SetUID("s-uid")
	set.SetLabels(map[string]string{contract.DeploymentNameLabel: "d"})
	c := &shelf{objects: map[string]*unstructured.Unstructured{"MachineSet s": set, "MachineDeployment d": d}}
	rollouts, err := machine.RolloutFromCache(c, sets, deployments)
	require.NoError(t, err)
	m := &contract.MachineState{}
	m.Key.Namespace = "default"
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "s", UID: "s-uid"}}
	for _, replicas := range []int64{1, 3, 4} {
		set.Object["spec"] = map[string]any{"replicas": replicas}
		found, err := rollouts.Of(t.Context(), m)
		require.NoError(t, err)
		require.True(t, found.Found)
		require.EqualValues(t, replicas, found.Set.Replicas.Or(0))
		require.Equal(t, 2, c.asked, "a kind that is listed stays listed")
	}
	delete(c.objects, "MachineSet s")
	found, err := rollouts.Of(t.Context(), m)
	require.NoError(t, err)
	require.False(t, found.Found)
}
