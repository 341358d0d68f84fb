package machine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
)

// Rollout is what a Machine is measured against to tell whether it is up to date. Strings, maps and slices are read-only views.
type Rollout struct {
	// Found says that the Machine has both a MachineSet and a MachineDeployment. Without, nobody says what it should be like, and it
	// has no condition UpToDate.
	Found bool
	// Set is the MachineSet that controls the Machine, Deployment the MachineDeployment that controls the set.
	Set        contract.MachineSetState
	Deployment contract.MachineDeploymentState
}

// RolloutMapper names the Machines of a MachineDeployment. It reads a cache, and may be called from several goroutines.
type RolloutMapper func(deployment types.NamespacedName) []reconcile.Request

// inDeployment returns the Machines that carry the label of a MachineDeployment.
func (r *Reconciler) inDeployment(ctx context.Context, deployment types.NamespacedName) []reconcile.Request {
	return r.machinesByKey(ctx, deployment.Namespace, deploymentKey(deployment.Name))
}
