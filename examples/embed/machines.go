package main

import (
	"context"
	"errors"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	v1 "example.com/edge/v1"
)

// This file is the integration of Machinist: the fields, the additional steps, and the set-up. stages.go has the stages.
// A test counts the lines of both, and README.md has the number.

// poweredOn is our own condition.
const finalizer, poweredOn = "edge.example.com/box", "PoweredOn"

// kindOf reads and writes the fields of a box. A readiness gate requires that the box is on.
func kindOf[T v1.Box](kind string, newObject func() T, list runtime.Object) contract.Kind {
	return contract.NewTyped(v1.GroupVersion().WithKind(kind), newObject, list.DeepCopyObject, func(b T, into *contract.MachineState) error {
		hardware, report := b.Parts()
		into.Metadata.From(b)
		into.ProviderID = providerID(hardware)
		into.ReadinessGates = []contract.ReadinessGate{{ConditionType: poweredOn}}
		if hardware.Patience != nil {
			into.NodeDrainTimeout = contract.Some(hardware.Patience.Duration)
		}
		into.Phase, into.LastUpdated = report.Stage, report.StageSince.UTC()
		into.Node = contract.NodeRef{Name: report.Host, UID: report.HostUID}
		into.ObservedGeneration, into.Conditions = report.Seen, report.Conditions
		return nil
	}, func(b T, u contract.MachineUpdate) error {
		_, report := b.Parts()
		u.MetadataUpdate.ApplyTo(b)
		u.Phase.ApplyTo(&report.Stage)
		u.LastUpdated.ApplyTo(&report.StageSince.Time)
		if node, set := u.Node.Value(); set || u.Node.Clears() {
			report.Host, report.HostUID = node.Name, node.UID
		}
		u.ObservedGeneration.ApplyTo(&report.Seen)
		report.Conditions = contract.UpdatedConditions(report.Conditions, u.Conditions, u.RemoveConditions)
		return nil
	})
}

// power returns a step that switches a box on or off, unless it is done by its condition.
func power(name string, when machine.Life, to metav1.ConditionStatus, do func(context.Context, v1.Hardware) error) machine.Step {
	return machine.Step{Name: name, On: when, Run: func(ctx context.Context, s *machine.Scope) (machine.Result, error) {
		b, ok := machine.ObjectAs[v1.Box](s)
		if is, _ := s.Condition(poweredOn); !ok || is.Status == to {
			return machine.Result{}, nil
		}
		hardware, _ := b.Parts()
		if err := do(ctx, *hardware); err != nil {
			s.Assert(metav1.Condition{Type: poweredOn, Status: metav1.ConditionUnknown, Reason: "ConsoleFailed", Message: err.Error()})
			return machine.Result{}, err
		}
		s.Assert(metav1.Condition{Type: poweredOn, Status: to, Reason: "Switched"})
		return machine.Result{}, nil
	}}
}

// boxSteps returns Machinist's steps without bootstrap and infrastructure objects, with power, and with our stages.
func boxSteps(console Console) ([]machine.Step, error) {
	table, err := stages()
	return machine.Steps().Remove(machine.StepBootstrap).Remove(machine.StepInfrastructure).
		InsertBefore(machine.StepNode, power("power-on", machine.InRunning, "True", console.PowerOn)).
		Replace(machine.StepDeleteInfrastructure, power("power-off", machine.InDeletion, "False", console.PowerOff)).
		Replace(machine.StepPhase, machine.PhaseStep(table, factsOf)).
		InsertAfter(machine.StepPhase, machine.Step{Name: "status", On: machine.InBoth, Closing: true, Run: status}), err
}

// addBoxes adds a reconciler for servers and one for gateways to the manager. They share their ports.
func addBoxes(ctx context.Context, mgr ctrl.Manager, console Console) error {
	steps, err := boxSteps(console)
	ports, err1 := machine.PortsFromManager(ctx, mgr, machine.Options{})
	if err := errors.Join(err, err1); err != nil {
		return err
	}
	servers := kindOf("EdgeServer", func() *v1.EdgeServer { return &v1.EdgeServer{} }, &v1.EdgeServerList{})
	gateways := kindOf("EdgeGateway", func() *v1.EdgeGateway { return &v1.EdgeGateway{} }, &v1.EdgeGatewayList{})
	gateways.StatusSubresource = false
	add := func(name string, kind contract.Kind) error {
		options := machine.Options{Steps: steps}
		options.Name, options.Recorder, kind.Finalizer = name, mgr.GetEventRecorder(name), finalizer
		r, err := machine.New(kind, ports, options)
		if err != nil {
			return err
		}
		return r.AddToManager(ctx, mgr)
	}
	return errors.Join(add("edge-servers", servers), add("edge-gateways", gateways))
}
