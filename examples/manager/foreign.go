package main

import (
	"context"
	"encoding/json"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/phases"
)

// stepInitializers is the name of the step that holds Machines of Kubermatic.
const stepInitializers = "initializers"

// foreignSteps returns steps with the phases of the group: another system has phases of its own, and Kubermatic's Machines can be
// held by an annotation before their instance is created.
func (o settings) foreignSteps(steps pass.Steps[*machine.Scope]) pass.Steps[*machine.Scope] {
	switch o.Kinds.Group {
	case api.Kubermatic:
		return steps.InsertBefore(machine.StepInfrastructure, machine.Step{Name: stepInitializers, On: pass.InRunning, Run: initializersStep}).
			Replace(machine.StepPhase, machine.PhaseStep(phases.Kubermatic(), machine.KubermaticFacts))
	case api.Gardener:
		return steps.Replace(machine.StepPhase, machine.PhaseStep(phases.Gardener(), machine.GardenerFacts))
	default:
		return steps
	}
}

// initializersStep ends a pass over a Machine that waits for initializers. Rule: Kubermatic's machine-controller.
func initializersStep(_ context.Context, s *machine.Scope) (machine.Result, error) {
	return machine.Result{Stop: s.State.Annotations[machine.KubermaticInitializers] != ""}, nil
}

// kubermaticRequest asks a driver for what is at spec.providerSpec.value.cloudProviderSpec. What is beside that does not concern a driver
// of Nodes.
func kubermaticRequest(_ context.Context, m *contract.MachineState) (provider.Request, error) {
	var value struct {
		CloudProviderSpec json.RawMessage `json:"cloudProviderSpec"`
	}
	if m.Provider.Class.Name != "" {
		return provider.Request{}, provider.Errorf(provider.Invalid,
			"spec.providerSpec.valueFrom is not supported: give spec.providerSpec.value")
	}
	if len(m.Provider.Spec) > 0 {
		if err := json.Unmarshal(m.Provider.Spec, &value); err != nil {
			return provider.Request{}, provider.Errorf(provider.Invalid, "spec.providerSpec.value is no object with a cloudProviderSpec: %w", err)
		}
	}
	return provider.Request{Spec: value.CloudProviderSpec}, nil
}
