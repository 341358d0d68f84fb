package inframachine

import (
	"context"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/provider"
)

// Finalizer is the default of Options.Finalizer.
const Finalizer = "machinist.dev/inframachine"

// Options are those of a Reconciler. Calls is required.
type Options struct {
	// Calls are those of the Driver, usually decorated with deadlines, a rate limit and a cache.
	Calls provider.Calls
	// Input returns what the Driver is asked for: the specification, of the InfraMachine or of its class, with Account and Credentials; the
	// rest is filled in where it is empty. It is called in every pass, from several goroutines, must not block, and neither keeps nor changes
	// the state. An error is retried with back-off; in a deletion the Driver is asked with what it returns beside the error, such as
	// Credentials. Default: Spec.
	Input func(context.Context, *contract.ProvidedMachineState) (provider.Request, error)
	// UserData returns the first-boot data from the bootstrap Secret of the Machine, before each creation. Default: the key "value" of the
	// Secret, read through Ports.APIReader.
	UserData func(ctx context.Context, secret types.NamespacedName) ([]byte, error)
	// Backoff says how long to wait after an error. Default provider.DefaultBackoff().
	Backoff provider.Backoff
	// Poll is the time between two looks at an instance that does not run yet, or is being deleted. Default ten seconds.
	Poll time.Duration
	// Refresh is the time between two looks at an instance that runs. Default instance.DefaultRefresh; negative: only events cause one.
	Refresh time.Duration
	// Steps are those of a pass. Default Steps().
	Steps engine.Steps[*Scope]

	// Name is the name of the controller and of its index. Default: the kind in lower case.
	Name string
	// Recorder records events; nil records none.
	Recorder events.EventRecorder
	// Clock is the time of a pass. Default the real one.
	Clock clock.PassiveClock
	// Finalizer keeps an InfraMachine until its instance is gone. Default Finalizer.
	Finalizer string
	// WatchFilter, when it is not empty, limits the Reconciler to InfraMachines whose label contract.WatchFilterLabel has this value.
	WatchFilter string
	// Metrics count the passes; nil counts nothing. Those of the Driver are provider.Metrics.
	Metrics *engine.Metrics
	// Controller is passed to controller-runtime.
	Controller controller.Options
}

func (o Options) withDefaults(kind contract.InfraMachineKind) Options {
	shared := o.shared().WithDefaults(kind.GVK.Kind, Finalizer)
	o.Name, o.Clock, o.Finalizer = shared.Name, shared.Clock, shared.Finalizer
	if o.Input == nil {
		o.Input = Spec
	}
	if o.Steps == nil {
		o.Steps = Steps()
	}
	return o
}

// shared are the options that all kinds have. A Machine waits for what the status says, so it is not delayed.
func (o Options) shared() engine.Options {
	return engine.Options{
		Name: o.Name, Recorder: o.Recorder, Clock: o.Clock, StatusDelay: -1, Finalizer: o.Finalizer, WatchFilter: o.WatchFilter,
		Metrics: o.Metrics, Controller: o.Controller,
	}
}

// Spec is the default of Options.Input: the spec of the InfraMachine without the provider ID, which is written into it. It has no
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
