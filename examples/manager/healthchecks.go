package main

import (
	"context"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machine/remediation"
)

const healthCheckResource = "machinehealthchecks"

// healthCheckWiring is the configuration for health checks, which determines the rights. The name of a template's kind is that of the
// requests with the suffix Template.
func healthCheckWiring(o settings) remediation.Wiring {
	w := remediation.Wiring{
		Kinds: kindsOf(o.Kinds.Group), Requests: o.Printing.RemediationResources, Clusters: o.followsClusters(), Events: true,
		OwnerReferencesEnforced: o.Printing.OwnersEnforced,
	}
	for _, request := range o.Printing.RemediationResources {
		if request.Resource != "*" {
			request.Resource = strings.TrimSuffix(request.Resource, "s") + "templates"
		}
		w.Templates = append(w.Templates, request)
	}
	return w
}

// addHealthChecks adds the reconciler of MachineHealthChecks, with the Nodes and Clusters of the Machine reconciler.
func addHealthChecks(
	ctx context.Context, mgr ctrl.Manager, o settings, guards safeguards, ports machine.Ports, machines machine.Options,
) error {
	shared, err := passOptionsOf(mgr, o, "MachineHealthCheck")
	if err != nil {
		return err
	}
	judges := remediation.Ports{Ports: ports.Ports, Workload: ports.Workload, NodesOf: ports.NodesOf, WorkloadEvents: ports.WorkloadEvents}
	if guards.gate != nil {
		judges.ReachOf = guards.gate.Of
	}
	r, err := remediation.New(kindsOf(o.Kinds.Group), judges, remediation.Options{
		Options: shared, Matching: machines.Matching, Checks: joining(o.Kinds.JoinTimeout),
	})
	if err != nil {
		return err
	}
	return r.AddToManager(ctx, mgr)
}

// joining returns the checks of MachineHealthChecks with a limit for joining the cluster.
func joining(limit time.Duration) func(*contract.HealthCheckState) healthcheck.Checks {
	return func(check *contract.HealthCheckState) healthcheck.Checks {
		checks := healthcheck.ChecksOf(check)
		checks.Join = limit
		return checks
	}
}

// needsHealthChecks returns an error if a CRD for MachineHealthChecks is missing.
func (o settings) needsHealthChecks(served bool) error {
	if o.Kinds.MachineHealthChecks && !served {
		return o.notServedBy(api.Group(o.Kinds.Group.MachineHealthCheck().GVK.Group), "--machinehealthchecks", healthCheckResource)
	}
	return nil
}
