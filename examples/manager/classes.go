package main

import (
	"context"
	"errors"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/examples/manager/options"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// classResource is the resource of MachineClasses.
const classResource = "machineclasses"

// refusedClassRetry is how long a Machine waits until its class is read again that the driver has refused: a class has no events.
const refusedClassRetry = 15 * time.Second

// readsClasses reports whether MachineClasses specify what the driver makes: of Gardener those that every Machine names, and of
// machinist.dev those that a Machine may name as its infrastructure object.
func (o settings) readsClasses() bool { return o.Driver.IsStep() && o.Kinds.Group != api.Kubermatic }

// readsClassSecrets reports whether the Secrets of a class have the credentials for its instances.
func (o settings) readsClassSecrets() bool {
	_, reads := o.Driver.CredentialsOf(options.CredentialsClass)
	return reads
}

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
	rules := []rbacv1.PolicyRule{{APIGroups: []string{o.classes().Group}, Resources: []string{o.classes().Resource},
		Verbs: []string{"list", "watch"}}}
	if o.readsClassSecrets() {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	}
	return rules
}

// needsClasses returns an error if the CRD of MachineClasses is missing, without which no Machine of Gardener can run.
func (o settings) needsClasses(has served) error {
	if o.Kinds.Group == api.Gardener && !has.lists(o.classes()) {
		return o.notServed("", classResource)
	}
	return nil
}

// requestOf returns what the driver is asked for, by the group of the Machines; nil: what the Machine itself specifies, without
// credentials.
func (o settings) requestOf(classes, secrets client.Reader) func(context.Context, *contract.MachineState) (provider.Request, error) {
	switch {
	case o.Kinds.Group == api.Gardener:
		return o.classRequests(machine.MachineClasses{Classes: classes, Secrets: secrets})
	case o.readsClasses():
		of := machine.MachineClasses{Kind: o.Kinds.Group.MachineClass(), At: []string{"spec"}, Classes: classes, Secrets: secrets}
		read := o.classRequests(of)
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

// classRequests returns requests for what classes specify. One that the driver would refuse is named in the error; what it says about an
// instance that exists is not judged. Without the flag that asks for them the Secrets of classes are not read. With it, an instance whose
// class is gone is not looked for with the credentials of another account, which would not find it: it waits for the class.
func (o settings) classRequests(classes machine.MachineClasses) func(context.Context, *contract.MachineState) (provider.Request, error) {
	if o.readsClassSecrets() {
		classes.Fallback = func(context.Context) (provider.Values, error) {
			return nil, errors.New("the class that names the Secret with the credentials cannot be read: create it again")
		}
	}
	return func(ctx context.Context, m *contract.MachineState) (provider.Request, error) {
		r, err := classes.RequestOf(ctx, m)
		switch {
		case !o.readsClassSecrets():
			r.Account, r.Credentials = "", nil
		case r.Account != "":
			r.Account = options.CredentialsSecret + ":" + r.Account
		}
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
		backoff[provider.Invalid] = provider.Pause{Max: refusedClassRetry}
	}
	return backoff
}
