package main

import (
	"context"

	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/phases"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// facts are the facts that determine the stage of a box.
type facts struct{ Leaving, On, Off, HasHost, Ready bool }

// factsOf returns the facts. A box whose console does not answer is neither on nor off.
func factsOf(s *machine.Scope) facts {
	is, _ := s.Condition(poweredOn)
	return facts{!s.State.Deleting.IsZero(), is.Status == "True", is.Status == "False", s.State.Node.Name != "", s.IsTrue("Ready")}
}

// stages returns the rules; the first one that matches determines the stage.
func stages() (*phases.Table[facts], error) {
	rule := func(stage phases.Phase, reason string, waiting phases.Gate, when func(facts) bool) phases.Rule[facts] {
		return phases.Rule[facts]{Decision: phases.Decision{Phase: stage, Reason: reason, Waiting: waiting}, When: when}
	}
	return phases.New(
		rule("Dark", "SwitchedOff", phases.GateDeletion, func(f facts) bool { return f.Leaving && f.Off }),
		rule("Retiring", "PodsLeave", phases.GateDeletion, func(f facts) bool { return f.Leaving }),
		rule("Serving", "HostReady", phases.GateNone, func(f facts) bool { return f.Ready }),
		rule("Settling", "HostNotReady", phases.GateHealth, func(f facts) bool { return f.HasHost }),
		rule("Booting", "NoHost", phases.GateNode, func(f facts) bool { return f.On }),
		rule("Racked", "SwitchedOff", "Power", nil),
	)
}

// status sets the condition Serving, which has what a box waits for.
func status(_ context.Context, s *machine.Scope) (machine.Result, error) {
	if s.Paused() {
		return machine.Result{}, nil // its stage was not computed
	}
	serving := metav1.Condition{Type: "Serving", Status: metav1.ConditionTrue, Reason: s.Phase.Reason, Message: string(s.Phase.Waiting)}
	if s.Phase.Waiting != phases.GateNone {
		serving.Status = metav1.ConditionFalse
	}
	s.Assert(serving)
	return machine.Result{}, nil
}
