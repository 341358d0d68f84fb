package remediation

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// validate reports missing capabilities of the kinds. Without annotations the ledger would be lost, and without conditions of Machines
// every pass would mark them again.
func validate(k contract.Kinds) error {
	err := engine.CheckKind("Kinds.Machine", k.Machine)
	if err != nil || engine.CheckKind("Kinds.Check", k.Check) != nil { // New reports the check's own
		return err
	}
	ofCheck, _ := contract.CheckKind(k.Check) // a kind that cannot be probed is not rejected
	ofMachine, _ := contract.CheckKind(k.Machine)
	errs := []error{contract.RequireStored(ofCheck, "Finalizers")}
	for _, f := range ofMachine {
		if f.Member == "Conditions" || f.Member == "Node.Name" {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}

// Ports are the interfaces that a Reconciler uses: those of all kinds, and the access to Nodes. Client, Cache and APIReader are required,
// and AddToManager requires ClusterEvents with ClusterOf, and WorkloadEvents with NodesOf.
type Ports struct {
	engine.Ports

	// Workload is the access to the Nodes of checks that name no cluster, or of all checks when NodesOf is nil.
	Workload cluster.Workload
	// NodesOf returns the access to the Nodes of a workload cluster, and must not block; see cluster.NodesOf. Nil: all Nodes are those of
	// Workload. WorkloadEvents is the source of its events, such as the method Source of cluster.Clusters.
	NodesOf        func(cluster types.NamespacedName) (cluster.Workload, error)
	WorkloadEvents func(cluster.Mapper) source.Source
	// ReachOf reports whether the API servers of a cluster respond, and since when, as the method Of of a machineset/guard.Gate does. It must
	// not block. Nil: they always respond.
	ReachOf func(cluster types.NamespacedName) healthcheck.Reach
}

// Options configure a Reconciler. The zero value is ready for use.
type Options struct {
	// Options are those of all kinds. Finalizer and ContractVersions have no effect, because no object belongs to a check alone.
	engine.Options

	// Checks returns the rules that make the Machines of a check unhealthy; nil is healthcheck.ChecksOf. It is called in each pass, from
	// several goroutines, and must not keep or change the state.
	Checks func(*contract.HealthCheckState) healthcheck.Checks
	// Matching defines which provider IDs are the same; use that of the Machine reconciler.
	Matching noderef.Rules
}

func (o Options) withDefaults(kind contract.HealthCheckKind) Options {
	o.Options = engine.WithDefaults(o.Options, kind.GVK.Kind)
	if o.Checks == nil {
		o.Checks = healthcheck.ChecksOf
	}
	return o
}
