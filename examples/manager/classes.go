package main

import (
	"context"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// classResource is the resource of MachineClasses.
const classResource = "machineclasses"

// refusedClassRetry is how long a Machine waits until its class is read again that the driver has refused: a class has no events.
const refusedClassRetry = 15 * time.Second

// readsClasses reports whether MachineClasses say what the driver makes: of Gardener those that every Machine names, and of machinist.dev
// those that a Machine may name as its infrastructure object.
func (o settings) readsClasses() bool { return o.Driver.IsStep() && o.Kinds.Group != api.Kubermatic }

// classes returns the resource of the MachineClasses.
func (o settings) classes() schema.GroupResource {
	return schema.GroupResource{Group: o.Kinds.Group.MachineClass().Group, Resource: classResource}
}

// shared reports whether what a template refers to is not cloned: with a driver as a step a MachineClass, and what no step of Machines
// uses. Nil without one.
func (o settings) shared() func(contract.Ref) bool {
	if !o.Driver.IsStep() {
		return nil
	}
	class := o.Kinds.Group.MachineClass().GroupKind()
	return func(ref contract.Ref) bool { return ref.GroupKind() == class || !o.refersTo(ref.Group) }
}

// classRules are the rights for MachineClasses.
func (o settings) classRules() []rbacv1.PolicyRule {
	if !o.readsClasses() {
		return nil
	}
	return []rbacv1.PolicyRule{{APIGroups: []string{o.classes().Group}, Resources: []string{o.classes().Resource},
		Verbs: []string{"list", "watch"}}}
}

// needsClasses returns an error if the CRD of MachineClasses is missing, without which no Machine of Gardener can run.
func (o settings) needsClasses(has served) error {
	if o.Kinds.Group == api.Gardener && !has.lists(o.classes()) {
		return o.notServed("", classResource)
	}
	return nil
}

// requestOf returns what the driver is asked for, by the group of the Machines; nil: what a Machine itself says, without credentials.
func (o settings) requestOf(classes client.Reader) func(context.Context, *contract.MachineState) (provider.Request, error) {
	switch {
	case o.Kinds.Group == api.Gardener:
		return classRequests(machine.MachineClasses{Classes: classes, Secrets: classes})
	case o.readsClasses():
		of := machine.MachineClasses{Kind: o.Kinds.Group.MachineClass(), At: []string{"spec"}, Classes: classes, Secrets: classes}
		read := classRequests(of)
		return func(ctx context.Context, m *contract.MachineState) (provider.Request, error) {
			if of.Of(m) == (contract.Ref{}) {
				return provider.Request{}, nil // the defaults of the driver
			}
			return read(ctx, m)
		}
	case o.Kinds.Group == api.Kubermatic:
		return kubermaticRequest
	default:
		return nil
	}
}

// classRequests returns requests for what classes say. One that the driver would refuse is named in the error; what it says about an
// instance that exists is not judged.
func classRequests(classes machine.MachineClasses) func(context.Context, *contract.MachineState) (provider.Request, error) {
	return func(ctx context.Context, m *contract.MachineState) (provider.Request, error) {
		r, err := classes.RequestOf(ctx, m)
		r.Account, r.Credentials = "", nil // kwok needs none, and so the manager needs no right to read Secrets
		if err == nil && m.ProviderID == "" {
			if err = kwokdriver.New(nil, 0).Validate(ctx, r); err != nil {
				err = provider.Errorf(provider.Invalid, "MachineClass %s/%s: %w", m.Key.Namespace, classes.Of(m).Name, err)
			}
		}
		return r, err
	}
}

// driverBackoff returns how long to wait after an error of the driver.
func (o settings) driverBackoff() provider.Backoff {
	backoff := provider.DefaultBackoff()
	if o.readsClasses() {
		backoff[provider.Invalid] = provider.Pause{Parks: true, Max: refusedClassRetry}
	}
	return backoff
}
