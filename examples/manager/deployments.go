package main

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/machineset/guard"
)

const deploymentResource = "machinedeployments"

// deploymentKinds are the kinds that deployments use.
func deploymentKinds() (deployment.Kinds, error) {
	kinds, err := deployment.ClusterAPI(contract.V1Beta2)
	kinds.Machine = api.Kind() // one shared informer
	return kinds, err
}

// deploymentWiring is the configuration for deployments, which determines the rights.
func deploymentWiring(o options) deployment.Wiring {
	kinds, _ := deploymentKinds() // it fails for an unknown version only
	return deployment.Wiring{
		Kinds: kinds, Templates: setWiring(o).Templates, Clusters: o.clusters != clustersNever, Events: true,
		OwnerReferencesEnforced: o.ownersEnforced,
	}
}

// addDeployments adds the reconciler of MachineDeployments.
func addDeployments(ctx context.Context, mgr ctrl.Manager, o options, clusters *external.Clusters, guards safeguards) error {
	kinds, err := deploymentKinds()
	if err != nil {
		return err
	}
	counted, err := newPassMetrics("MachineDeployment")
	if err != nil {
		return err
	}
	ports := deployment.PortsFromManager(mgr)
	if clusters != nil {
		ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	}
	steps, err := pass.InsertAfter(deployment.Steps(), deployment.StepSets, guard.HoldStep[*deployment.Scope](guards.gate))
	if err != nil {
		return err
	}
	if steps, err = freezing(o, guards, steps, deployment.StepPaused); err != nil {
		return err
	}
	r, err := deployment.New(kinds, ports, deployment.Options{
		Steps: steps, StatusDelay: statusDelay(o), WatchFilter: o.watchFilter, Recorder: mgr.GetEventRecorder(userAgent),
		Controller: controller.Options{MaxConcurrentReconciles: o.concurrency}, Metrics: counted,
	})
	if err != nil {
		return err
	}
	return r.AddToManager(ctx, mgr)
}

// needsDeployments returns an error if a CRD for MachineDeployments, or for their MachineSets, is missing.
func (o options) needsDeployments(served bool) error {
	if o.machineDeployments && !served {
		return fmt.Errorf("--machinedeployments: the API server does not serve %s and %s of %s: install Cluster API's CRDs",
			deploymentResource, setResource, machineGVK().GroupVersion())
	}
	return nil
}
