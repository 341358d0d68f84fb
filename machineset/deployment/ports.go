package deployment

import (
	"errors"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Finalizer retains a MachineDeployment until its MachineSets are gone. It is Cluster API's.
const Finalizer = "cluster.x-k8s.io/machinedeployment"

// validate reports missing parts of the kinds.
func validate(k contract.Kinds) error {
	var maker error
	if k.SetMaker == nil {
		maker = errors.New("Kinds.SetMaker is not set")
	}
	err := errors.Join(engine.CheckKind("Kinds.Set", k.Set), engine.CheckKind("Kinds.Machine", k.Machine), maker)
	if err != nil || engine.CheckKind("Kinds.Deployment", k.Deployment) != nil { // New reports the deployment's own
		return err
	}
	deployment, _ := contract.CheckKind(k.Deployment) // a kind or a maker that rejects an empty object cannot be checked
	made, _ := contract.CheckSetMaker(k.Deployment, k.Set, k.SetMaker, nil)
	return errors.Join(contract.RequireStored(deployment), contract.RequireStored(made))
}

// Options configure a Reconciler. The zero value is ready for use.
type Options struct {
	// Options are those of all kinds.
	engine.Options

	// Steps replace the default steps; see Steps. Nil means the default. New rejects a list that is not safe.
	Steps engine.Steps[*Scope]
	// Shared reports whether a reference of a template is not to a template, but to an object that all Machines reference directly, such as a
	// MachineClass: it is neither read nor cloned. It is called in every pass, from several goroutines, and must not block. Nil: every
	// reference is one to a template.
	Shared func(contract.Ref) bool
}
