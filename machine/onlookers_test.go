package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestMachinesThatLookAtAControlPlaneAreForgottenWhenTheyAreGone(t *testing.T) {
	t.Parallel()
	o := newOnlookers()
	a, b := types.NamespacedName{Namespace: "ns", Name: "a"}, types.NamespacedName{Namespace: "ns", Name: "b"}
	o.add(a, "cluster:x", "plane:y")
	o.add(b, "cluster:x")
	o.add(a, "cluster:x") // every pass says it again
	if got := len(o.requests("cluster:x")); got != 2 {
		t.Errorf("want both, got %d", got)
	}
	o.forget(a)
	o.forget(a)
	if diff := cmp.Diff([]reconcile.Request{{NamespacedName: b}}, o.requests("cluster:x")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := o.requests("plane:y"); len(got) > 0 {
		t.Errorf("nobody is left, and %v are woken", got)
	}
	o.forget(b)
	if len(o.of) > 0 || len(o.seen) > 0 {
		t.Errorf("what nobody looks at takes no room: %v, %v", o.of, o.seen)
	}
}
