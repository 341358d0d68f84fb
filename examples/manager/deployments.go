package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

const deploymentResource = "machinedeployments"

// deploymentWiring is the configuration for deployments, which determines the rights.
func deploymentWiring(o settings) deployment.Wiring {
	return deployment.Wiring{
		Kinds: kindsOf(o.Kinds.Group), Templates: setWiring(o).Templates, Clusters: o.followsClusters(), Events: true,
		OwnerReferencesEnforced: o.Printing.OwnersEnforced,
	}
}

// addDeployments adds the reconciler of MachineDeployments.
func addDeployments(
	ctx context.Context, mgr ctrl.Manager, o settings, clusters *pass.Clusters, guards safeguards,
) error {
	shared, err := passOptionsOf(mgr, o, "MachineDeployment")
	if err != nil {
		return err
	}
	ports := pass.PortsFromManager(mgr)
	follow(&ports, clusters)
	steps := guarded(o, guards, deployment.Steps(), deployment.StepPaused, deployment.StepTemplates)
	if o.Safety.FreezePeriod > 0 {
		steps = steps.InsertAfter(deployment.StepSets, deployment.FreezeStep())
	}
	r, err := deployment.New(kindsOf(o.Kinds.Group), ports, deployment.Options{
		Options: shared, Steps: steps, Shared: o.shared(),
	})
	if err != nil {
		return err
	}
	return r.AddToManager(ctx, mgr)
}

// needsDeployments returns an error if a CRD for MachineDeployments, or for their MachineSets, is missing.
func (o settings) needsDeployments(served bool) error {
	if o.Kinds.MachineDeployments && !served {
		return o.notServed("--machinedeployments", deploymentResource+" and "+setResource)
	}
	return nil
}
