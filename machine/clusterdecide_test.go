package machine

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

func TestMachinesThatLookAtAControlPlaneAreForgottenWhenTheyAreGone(t *testing.T) {
	t.Parallel()
	o := newDependents()
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
		t.Errorf("no Machine is left, and %v are woken", got)
	}
	o.forget(b)
	if len(o.of) > 0 {
		t.Errorf("what no pass reads is kept: %v", o.of)
	}
}

func TestAMachineInDeletionIsWokenByWhatItsDeletionDependsOn(t *testing.T) {
	t.Parallel()
	plane := contract.Ref{Group: "g", Kind: "Plane", Name: "p"}
	r := testReconciler(testKind(), Ports{Ports: engine.Ports{Cache: broken{}}}, Options{})
	r.ports.ClusterOf = func(context.Context, types.NamespacedName) (external.ClusterView, error) {
		view := external.ClusterView{Presence: external.Present, ActiveControlPlaneMachines: contract.Some(3)}
		view.State.ControlPlane = plane
		return view, nil
	}
	r.frame.Ports.ClusterOf = r.ports.ClusterOf
	state := contract.MachineState{Metadata: contract.Metadata{Key: types.NamespacedName{Namespace: "ns", Name: "m"}}}
	state.ClusterName = "c"
	s := attached(&Scope{Scope: base{State: state}, env: r})
	s.lookUpCluster(t.Context())
	require.NoError(t, s.ClusterErr)
	require.Empty(t, r.dependents.of, "one that lives has no business with the control plane")

	s.State.Deleting = time.Unix(1, 0)
	s.lookUpCluster(t.Context())
	require.ErrorIs(t, s.ClusterErr, errBroken, "the control plane is unread, and not absent")
	crd := contract.CRDName(plane.GroupKind())
	for _, key := range []string{
		engine.ClusterKey(types.NamespacedName{Namespace: "ns", Name: "c"}), engine.CRDKey(crd),
		controlPlaneObjectKey(crd, types.NamespacedName{Namespace: "ns", Name: "p"}),
	} {
		require.Equal(t, []reconcile.Request{{NamespacedName: state.Key}}, r.dependents.requests(key), key)
	}
}
