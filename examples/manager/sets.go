package main

import (
	"context"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machineset"
)

const setResource = "machinesets"

// kindsOf are the kinds that sets and deployments use. Their Machines have the Go type of the Machine reconciler, so that all share one
// cache.
func kindsOf(group api.Group) contract.Kinds {
	machines, sets := group.Machine(), group.MachineSet()
	of := group.Layouts()
	return contract.Kinds{
		Deployment: group.MachineDeployment(), Set: sets, Machine: machines, Check: group.MachineHealthCheck(),
		AllRevisions: group == api.Gardener,
		Maker:        contract.UnstructuredMaker(of.MachineSet, machines.GVK, of.Machine),
		SetMaker:     contract.UnstructuredSetMaker(of.MachineDeployment, sets.GVK, of.MachineSet),
	}
}

// setWiring is the configuration for sets, which determines the rights. The name of a template's kind is that of the
// created kind with the suffix Template.
func setWiring(o settings) machineset.Wiring {
	w := machineset.Wiring{
		Kinds: kindsOf(o.Kinds.Group), Clusters: o.followsClusters(), Events: true,
		References: o.references(), OwnerReferencesEnforced: o.Printing.OwnersEnforced,
	}
	for _, made := range w.References {
		if made.Resource != "*" {
			made.Resource = strings.TrimSuffix(made.Resource, "s") + "templates"
		}
		w.Templates = append(w.Templates, made)
	}
	if w.Clusters {
		w.ControlPlanes = o.Printing.ControlPlaneResources
	}
	return w
}

// addSets adds the reconciler of MachineSets.
func addSets(
	ctx context.Context, mgr ctrl.Manager, o settings, clusters *pass.Clusters, guards safeguards,
) error {
	shared, err := passOptionsOf(mgr, o, "MachineSet")
	if err != nil {
		return err
	}
	ports := pass.PortsFromManager(mgr)
	follow(&ports, clusters)
	steps := guarded(o, guards, machineset.Steps(), machineset.StepPaused, machineset.StepHolds)
	if o.Safety.FreezePeriod > 0 {
		freeze := machineset.FreezeOptions{Limits: o.Safety.Limits, Period: o.Safety.FreezePeriod}
		if o.Kinds.MachineDeployments {
			freeze.Deployment = kindsOf(o.Kinds.Group).Deployment
		}
		steps = steps.InsertBefore(machineset.StepHolds, machineset.FreezeStep(freeze))
	}
	r, err := machineset.New(kindsOf(o.Kinds.Group), ports, machineset.Options{
		Options: shared, Steps: steps, Shared: o.shared(),
	})
	if err != nil {
		return err
	}
	return r.AddToManager(ctx, mgr)
}

// needsSets returns an error if a CRD for MachineSets is missing.
func (o settings) needsSets(served bool) error {
	if o.Kinds.MachineSets && !served {
		return o.notServed("--machinesets", setResource)
	}
	return nil
}
