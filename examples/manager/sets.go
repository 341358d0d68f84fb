package main

import (
	"context"
	"fmt"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machineset"
)

const setResource = "machinesets"

// setKinds are the kinds that sets are about. Their Machines are read as the Go type that the manager reads them as anyway, so that
// there is one cache of them.
func setKinds() machineset.Kinds {
	layout := contract.MachineSetV1Beta2()
	return machineset.Kinds{
		Set: contract.Unstructured(kindOf("MachineSet"), layout), Machine: api.Kind(),
		Maker: contract.UnstructuredMaker(layout, machineGVK(), contract.MachineV1Beta2()),
	}
}

// setWiring says what needs rights. Templates are called after what is made of them.
func setWiring(o options) machineset.Wiring {
	w := machineset.Wiring{
		Kinds: setKinds(), Clusters: o.clusters != clustersNever, Events: true,
		References: o.providerResources, OwnerReferencesEnforced: o.ownersEnforced,
	}
	for _, made := range o.providerResources {
		if made.Resource != "*" {
			made.Resource = strings.TrimSuffix(made.Resource, "s") + "templates"
		}
		w.Templates = append(w.Templates, made)
	}
	if w.Clusters {
		w.ControlPlanes = o.controlPlaneResources
	}
	return w
}

// addSets has the manager keep MachineSets too.
func addSets(ctx context.Context, mgr ctrl.Manager, o options, clusters *external.Clusters) error {
	ports := machineset.PortsFromManager(mgr)
	if clusters != nil {
		ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
	}
	r, err := machineset.New(setKinds(), ports, machineset.Options{
		StatusDelay: statusDelay(o), WatchFilter: o.watchFilter, Recorder: mgr.GetEventRecorder(userAgent),
		Controller: controller.Options{MaxConcurrentReconciles: o.concurrency},
	})
	if err != nil {
		return err
	}
	return r.AddToManager(ctx, mgr)
}

// needsSets says what is missing for MachineSets.
func (o options) needsSets(served bool) error {
	if o.machineSets && !served {
		return fmt.Errorf("--machinesets: the API server does not serve %s of %s: install Cluster API's CRDs", setResource,
			machineGVK().GroupVersion())
	}
	return nil
}
