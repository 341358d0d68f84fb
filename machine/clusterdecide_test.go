package machine

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

func TestOnlyAMachineInDeletionReadsTheControlPlane(t *testing.T) {
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
	require.NoError(t, s.ClusterErr, "one that lives has no business with the control plane")

	s.State.Deleting = time.Unix(1, 0)
	s.lookUpCluster(t.Context())
	require.ErrorIs(t, s.ClusterErr, errBroken, "the control plane is unread, and not absent")
}
