package inframachine

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// Finalizer is the default of Kinds.InfraMachine.Finalizer.
const Finalizer = "machinist.dev/inframachine"

// Options configure a Reconciler. Calls is required.
type Options struct {
	// Options are those of all kinds. StatusDelay and ContractVersions have no effect: a Machine waits for the status, so it is written at
	// once. Metrics of the Driver are provider.Metrics.
	engine.Options

	// Calls are the calls of the Driver, usually decorated with deadlines, a rate limit and a cache.
	Calls provider.Calls
	// Input returns the Driver's input: the specification, of the InfraMachine or of its class, with Account and Credentials; other fields are
	// filled in where they are empty. It is called in every pass, from several goroutines, must not block, and must not keep or change the
	// state. An error is retried with back-off; in a deletion the Driver is called with the Request that is returned beside the error, for its
	// Credentials. Default: Spec.
	Input func(context.Context, *contract.ProvidedMachineState) (provider.Request, error)
	// UserData returns the first-boot data from the bootstrap Secret of the Machine, before each creation. Default: the key "value" of the
	// Secret, read through Ports.APIReader.
	UserData func(ctx context.Context, secret types.NamespacedName) ([]byte, error)
	// Backoff defines the delay after an error. Default provider.DefaultBackoff().
	Backoff provider.Backoff
	// Poll is the time between two reads of an instance that does not run yet or is being deleted. Default ten seconds.
	Poll time.Duration
	// Refresh is the time between two reads of a running instance. Default instance.DefaultRefresh; negative: only events cause a read.
	Refresh time.Duration
	// Steps are the steps of a pass. Default Steps().
	Steps engine.Steps[*Scope]
}

func (o Options) withDefaults(kind contract.InfraMachineKind) Options {
	o.StatusDelay = -1
	o.Options = engine.WithDefaults(o.Options, kind.GVK.Kind)
	if o.Input == nil {
		o.Input = Spec
	}
	if o.Steps == nil {
		o.Steps = Steps()
	}
	return o
}

// Spec is the default of Options.Input: the spec of the InfraMachine without the provider ID, which is written into it, and without
// credentials.
func Spec(_ context.Context, m *contract.ProvidedMachineState) (provider.Request, error) {
	content := map[string]json.RawMessage{}
	if len(m.Spec) > 0 {
		if err := json.Unmarshal(m.Spec, &content); err != nil {
			return provider.Request{}, provider.Errorf(provider.Invalid, "the spec is no JSON object: %w", err)
		}
	}
	delete(content, "providerID")
	spec, err := json.Marshal(content)
	return provider.Request{Spec: spec}, err
}
