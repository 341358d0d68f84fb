package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

func TestOwnWrites(t *testing.T) {
	t.Run("no step runs on an object that is older than the last write of this process", func(t *testing.T) {
		ran := 0
		b := newBench(t, true, step{Name: "counts", On: engine.InRunning, Run: func(_ context.Context, s *scope) (engine.Result, error) {
			ran++
			s.AddFinalizer()
			return engine.Result{}, nil
		}})
		u := b.create()
		old, r := u.DeepCopy(), b.reconciler()
		_, err := r.ReconcileObject(t.Context(), old)
		require.NoError(t, err)
		require.Equal(t, 1, ran)
		result, err := r.ReconcileObject(t.Context(), old)
		require.NoError(t, err)
		require.Equal(t, 1, ran, "the cache has yet to show what was written")
		require.Equal(t, engine.BehindRetry, result.RequeueAfter, "an event that is lost delays it, and no more")
		require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u))
		_, err = r.ReconcileObject(t.Context(), u)
		require.NoError(t, err)
		require.Equal(t, 2, ran)
	})
}

func TestDeleteReferenced(t *testing.T) {
	for name, unchanged := range map[string]bool{"by its UID": false, "by its UID and its version": true} {
		t.Run("an object that replaced the one that was read stays: "+name, func(t *testing.T) {
			b := newBench(t, true)
			u := b.create()
			read := external.Object{GVK: u.GroupVersionKind(), Ref: contract.Ref{Kind: u.GetKind(), Name: u.GetName()}, Object: u.DeepCopy()}
			read.Object.SetUID(types.UID("of an earlier one"))
			var s scope
			require.NoError(t, engine.Begin(&s.Scope, b.frame, u))
			var requested engine.Deletions
			err := s.DeleteReferenced(t.Context(), read, &requested, unchanged)
			require.True(t, apierrors.IsConflict(err), "%v", err)
			require.Empty(t, requested)
			require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u))

			read.Object = u.DeepCopy()
			require.NoError(t, s.DeleteReferenced(t.Context(), read, &requested, unchanged))
			require.True(t, requested.Has(u.GetUID()))
			require.True(t, apierrors.IsNotFound(b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u)))
		})
	}
}
