package machineset_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
)

// An API server that does not serve a version at the moment answers 404 to all that is asked of it.
func TestAMachineWhoseDeletionTheServerDidNotUnderstandIsDeletedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake0()).live()
	w.run(machineset.Options{})
	set := w.set("workers", 2)
	w.create(set)
	w.has(set, 2)
	w.store.FailNext(func(r fake.Request) bool {
		return r.UserAgent == userAgent && r.Verb == "delete" && r.GVK.Kind == w.kinds.Machine.GVK.Kind
	}, apierrors.NewGenericServerResponse(404, "delete", schema.GroupResource{Resource: "machines"}, "", "404 page not found", 0, true))
	w.scale(set, 1)
	w.has(set, 1)
}
