package machineset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func TestNothingIsRememberedOfASetThatIsDoneWith(t *testing.T) {
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	ports := engine.Ports{Client: struct{ client.Client }{}, Cache: broken{}, APIReader: struct{ client.Reader }{}}
	r, err := New(kinds, ports, Options{Options: engine.Options{WatchFilter: "mine"}})
	require.NoError(t, err)
	set := kinds.Set.New()
	set.SetNamespace("default")
	set.SetName("workers")
	set.SetUID("uid")
	key := types.NamespacedName{Namespace: "default", Name: "workers"}
	before := r.memory.Of(key, "uid")
	_, err = r.ReconcileObject(t.Context(), set)
	require.NoError(t, err)
	require.NotSame(t, before, r.memory.Of(key, "uid"), "it is another controller's")

	before = r.memory.Of(key, "uid")
	set.SetLabels(map[string]string{contract.WatchFilterLabel: "mine"})
	set.SetDeletionTimestamp(new(metav1.NewTime(noon())))
	_, err = r.ReconcileObject(t.Context(), set)
	require.NoError(t, err)
	require.NotSame(t, before, r.memory.Of(key, "uid"), "its finalizer is gone")
}
