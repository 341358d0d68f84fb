package machineset

import (
	"errors"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Finalizer keeps a MachineSet until its Machines are gone. It is Cluster API's.
const Finalizer = "cluster.x-k8s.io/machineset"

// DisableCreateAnnotation of a set, with the value true, keeps it from creating Machines. Rule: Cluster API's MachineSet.
const DisableCreateAnnotation = "cluster.x-k8s.io/disable-machine-create"

// validate reports what is missing of the kinds.
func validate(k contract.Kinds) error {
	var maker error
	if k.Maker == nil {
		maker = errors.New("Kinds.Maker is not set")
	}
	err := errors.Join(engine.CheckKind("Kinds.Machine", k.Machine), maker)
	if err != nil || engine.CheckKind("Kinds.Set", k.Set) != nil { // New reports the set's own
		return err
	}
	return keeps(k)
}

// keeps reports which required members the kinds do not store. A kind or a maker that rejects an empty object cannot be checked.
func keeps(k contract.Kinds) error {
	var errs []error
	if forgotten, err := contract.CheckKind(k.Set); err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten))
	}
	if forgotten, err := contract.CheckKind(k.Machine); err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten, "Node.Name", "Node.UID")) // which drains need
	}
	if forgotten, err := contract.CheckMaker(k.Set, k.Machine, k.Maker, nil); err == nil {
		errs = append(errs, contract.RefuseForgotten(forgotten))
	}
	return errors.Join(errs...)
}

// RestoredAnnotation is children.RestoredAnnotation.
const RestoredAnnotation = children.RestoredAnnotation

// Options configure a Reconciler. The zero value is ready for use.
type Options struct {
	// Options are those of all kinds. With StatusDelay, Machines which change one after the other cost one write. The limit of a pass
	// always uses real time.
	engine.Options

	// Steps replace the default steps; see Steps. Nil means the default. New rejects a list that is not safe.
	Steps engine.Steps[*Scope]
	// Shared reports whether what a template refers to is no template, but an object that all Machines refer to as it stands, such as a
	// MachineClass: it is neither read nor cloned. It is called in every pass, from several goroutines, and must not block. Nil: every
	// reference is one to a template.
	Shared func(contract.Ref) bool
}

func (o Options) withDefaults(kind contract.MachineSetKind) Options {
	o.Options = engine.WithDefaults(o.Options, kind.GVK.Kind)
	if o.Steps == nil {
		o.Steps = Steps()
	}
	return o
}
