package machine_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
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
