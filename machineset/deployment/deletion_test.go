package deployment_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAnOldSetThatChangesWhileItIsDeletedStaysUntilItIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorldWithLimits(t).live()
	var refused atomic.Int32
	w.deletes = func(obj client.Object, pass func() error) error {
		if refused.Load() > 0 {
			return pass()
		}
		old := object(w.kinds.Set.GVK, obj.GetName())
		w.change(old, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"example.com/keep": "a while"}) })
		err := pass()
		if !apierrors.IsConflict(err) || w.get(old) == nil {
			t.Errorf("the set was deleted: %v", err)
		}
		refused.Add(1)
		return err
	}
	w.keepsNoHistory()
	require.Equal(t, int32(1), refused.Load())
}
