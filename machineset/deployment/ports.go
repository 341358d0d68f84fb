package deployment

import (
	"errors"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Finalizer keeps a MachineDeployment until its MachineSets are gone. It is Cluster API's.
const Finalizer = "cluster.x-k8s.io/machinedeployment"

// validate reports what is missing of the kinds.
func validate(k contract.Kinds) error {
	var maker error
	if k.SetMaker == nil {
		maker = errors.New("Kinds.SetMaker is not set")
	}
	err := errors.Join(engine.CheckKind("Kinds.Set", k.Set), engine.CheckKind("Kinds.Machine", k.Machine), maker)
	if err != nil || engine.CheckKind("Kinds.Deployment", k.Deployment) != nil { // New reports the deployment's own
		return err
	}
	var errs []error // a kind or a maker that rejects an empty object cannot be checked
	if forgotten, err := contract.CheckKind(k.Deployment); err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten))
	}
	if forgotten, err := contract.CheckSetMaker(k.Deployment, k.Set, k.SetMaker, nil); err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten))
	}
	return errors.Join(errs...)
}

// Options configure a Reconciler. The zero value is ready for use.
type Options struct {
	// Options are those of all kinds.
	engine.Options

	// Steps replace the default steps; see Steps. Nil means the default. New rejects a list that is not safe.
	Steps engine.Steps[*Scope]
	// Shared reports whether what a template refers to is no template, but an object that all Machines refer to as it stands, such as a
	// MachineClass: it is neither read nor cloned. It is called in every pass, from several goroutines, and must not block. Nil: every
	// reference is one to a template.
	Shared func(contract.Ref) bool
}

func (o Options) withDefaults(kind contract.MachineDeploymentKind) Options {
	o.Options = engine.WithDefaults(o.Options, kind.GVK.Kind)
	if o.Steps == nil {
		o.Steps = Steps()
	}
	return o
}
