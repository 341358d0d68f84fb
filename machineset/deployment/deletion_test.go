package deployment_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
)

func TestAnOldSetThatChangesWhileItIsDeletedStaysUntilItIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
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
	w.run()
	d := w.deployment(1, func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{contract.RevisionHistoryLimitAnnotation: "0"})
	})
	w.rolled(d, "blue", 1)
	w.change(d, template("green"))
	w.rolled(d, "green", 1)
	w.eventually("the old set to go", func() string {
		if sets := w.describeSets(); len(sets) != 1 || refused.Load() == 0 {
			return fmt.Sprint(sets)
		}
		return ""
	})
}
