package guard_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
)

func machines() contract.Kind {
	gvk := schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}.WithKind
	return contract.Unstructured(gvk("Machine"), contract.LayoutsOf(contract.V1Beta2).Machine)
}

// world is a store with Machines.
type world struct {
	*testenv.Env

	t    *testing.T
	kind contract.Kind
}

func newWorld(t *testing.T) *world {
	t.Helper()
	o := fake.Options{Kinds: []fake.ServedKind{{GVK: machines().GVK, Status: true}}}
	return &world{Env: testenv.Start(t, o, fake.Loops{}, nil), t: t, kind: machines()}
}
