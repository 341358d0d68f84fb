package machine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unserved is a cache of a server that serves nothing.
type unserved struct{ cache.Cache }

func (unserved) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, &meta.NoKindMatchError{}
}

func (unserved) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return &meta.NoKindMatchError{}
}

func TestAServerThatServesNoBudgetsHasNoneAndIsAskedByTheFirstDrain(t *testing.T) {
	wanted := make(chan struct{})
	budgets := &lazyBudgets{Cache: unserved{}, wanted: wanted}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := budgets.GetInformer(ended, &policyv1.PodDisruptionBudget{})
	require.ErrorIs(t, err, context.Canceled, "before a drain wants to know, it waits")
	close(wanted)
	informer, err := budgets.GetInformer(t.Context(), &policyv1.PodDisruptionBudget{})
	require.NoError(t, err)
	require.True(t, informer.HasSynced())
	registration, err := informer.AddEventHandler(nil)
	require.NoError(t, err)
	require.NoError(t, informer.RemoveEventHandler(registration))
	require.NoError(t, budgets.List(t.Context(), &policyv1.PodDisruptionBudgetList{}))
}
