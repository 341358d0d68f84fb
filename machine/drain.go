package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/noderef"
)

// observeStep reads what a Machine in deletion needs to know. It takes over what the infrastructure still reports, since a
// Machine may be deleted before it knew its own Node.
func observeStep(ctx context.Context, s *Scope) (Result, error) {
	var total Result
	for _, look := range []StepFunc{bootstrapStep, infrastructureStep, nodeStep} {
		result, err := look(ctx, s)
		if err != nil {
			return Result{}, err
		}
		total.RequeueAfter = soonest(total.RequeueAfter, result.RequeueAfter)
	}
	return total, nil
}

func preDrainHooksStep(_ context.Context, s *Scope) (Result, error) {
	return s.waitForHooks(contract.PreDrainHook, ReasonWaitingForPreDrainHook, "pre-drain")
}

func preTerminateHooksStep(_ context.Context, s *Scope) (Result, error) {
	return s.waitForHooks(contract.PreTerminateHook, ReasonWaitingForPreTerminateHook, "pre-terminate")
}

// waitForHooks stops the pass while an annotation asks for it. Hooks are looked at in every pass, and have no limit.
func (s *Scope) waitForHooks(prefix, reason, name string) (Result, error) {
	var hooks []string
	for key := range s.State.Annotations {
		if strings.HasPrefix(key, prefix) {
			hooks = append(hooks, key)
		}
	}
	if len(hooks) == 0 {
		return Result{}, nil
	}
	slices.Sort(hooks)
	return s.wait(reason, fmt.Sprintf("Waiting for %s hooks to succeed (hooks: %s)", name, strings.Join(hooks, ","))), nil
}

// wait asserts the stage that a deletion is in and stops the pass.
func (s *Scope) wait(reason, message string) Result {
	s.Assert(condition(ConditionDeleting, metav1.ConditionTrue, reason, message))
	return Result{Stop: true}
}

// drainFacts are what the decision to drain depends on.
type drainFacts struct {
	Excluded       bool // by annotation, or because there is no Drainer
	Infrastructure External
	// InfrastructureGone: the API server said so itself.
	InfrastructureGone bool
	NodesSynced        bool
	Unread             string // why the Nodes are not synced
	Match              noderef.Match
	State              *contract.MachineState
	Now                time.Time
}

// orExclude is what a person can do about a Node that must not be drained as things are.
const orExclude = ", or set the annotation " + contract.ExcludeDrain

type drainAction uint8

const (
	drainSkip drainAction = iota
	drainWait
	drainRecord
	drainStart
	drainGo
)

// decideDrain says what to do about the Node of a Machine that is being deleted. A Node is drained once; a machine that is
// gone or going cannot be drained any more; and a Node that was not read is not a Node that does not exist.
func decideDrain(f drainFacts) (drainAction, string) {
	switch {
	case f.Excluded:
		return drainSkip, ""
	case f.InfrastructureGone || f.Infrastructure.Deleting():
		return drainSkip, ""
	case !f.NodesSynced:
		return drainWait, f.Unread
	}
	switch f.Match.Outcome {
	case noderef.NoProviderID, noderef.NotFound, noderef.Stale:
		return drainSkip, ""
	case noderef.Matched, noderef.Readopted:
		return decideDrainOf(f)
	case noderef.Claimed:
		return drainWait, claimed(f.Match, f.State) + orExclude
	case noderef.Ambiguous, noderef.Unknown:
	}
	return drainWait, ambiguous(f.Match, f.State.ProviderID) + orExclude
}

func decideDrainOf(f drainFacts) (drainAction, string) {
	timeout, limited := f.State.NodeDrainTimeout.Get()
	started := f.State.DrainStarted
	switch {
	case f.State.DrainedNode == f.Match.Node.UID:
		return drainSkip, ""
	case f.Match.Record:
		return drainRecord, "Node " + f.Match.Node.Name + " was matched: recording it first"
	case started.IsZero():
		return drainStart, "Drain not completed yet"
	case limited && timeout > 0 && !f.Now.Before(started.Add(timeout)):
		return drainSkip, ""
	}
	return drainGo, ""
}

func drainStep(ctx context.Context, s *Scope) (Result, error) {
	facts := drainFacts{
		Infrastructure: s.Infrastructure, NodesSynced: s.NodesSynced, Unread: s.unread(), Match: s.Node, State: &s.State, Now: s.Now,
	}
	_, facts.Excluded = s.State.Annotations[contract.ExcludeDrain]
	facts.Excluded = facts.Excluded || (s.NodesErr == nil && s.Workload.Drainer == nil)
	if !facts.Excluded && s.Infrastructure.Presence == Absent {
		gone, err := s.env.confirmAbsent(ctx, s.Infrastructure.GVK, s.refKey(s.Infrastructure))
		if err != nil {
			return Result{}, err
		}
		facts.InfrastructureGone = gone
	}
	action, message := decideDrain(facts)
	switch action {
	case drainWait:
		return s.wait(ReasonDrainingNode, message), nil
	case drainRecord:
		s.urgent = true
		s.wait(ReasonDrainingNode, message)
		return Result{Checkpoint: true}, nil
	case drainStart:
		s.SetDrainStarted(s.Now.Truncate(time.Second))
		s.wait(ReasonDrainingNode, fmt.Sprintf("%s (started at %s)", message, s.State.DrainStarted.UTC().Format(time.RFC3339)))
		return Result{Checkpoint: true}, nil
	case drainGo:
		return s.drain(ctx)
	case drainSkip:
		s.releaseNode()
	}
	return Result{}, nil
}

func (s *Scope) drain(ctx context.Context) (Result, error) {
	result, err := s.Workload.Drainer.Step(ctx, runner.Request{Node: s.Node.Node, Owner: s.State.Key})
	if err != nil {
		s.wait(ReasonDrainingNode, err.Error())
		if isUnread(err) {
			return Result{Stop: true, RequeueAfter: conflictRetry}, nil
		}
		return Result{}, fmt.Errorf("drain Node %s: %w", s.Node.Node.Name, err)
	}
	if !result.Done {
		message := fmt.Sprintf("Drain not completed yet (started at %s):\n%s", s.State.DrainStarted.UTC().Format(time.RFC3339), result.Message)
		s.wait(ReasonDrainingNode, strings.TrimSpace(message))
		return Result{Stop: true, RequeueAfter: s.untilDrainTimeout(result.RequeueAfter)}, nil
	}
	s.SetDrained(s.Node.Node.UID)
	s.urgent = true
	s.releaseNode()
	s.wait(ReasonDrainingNode, "Drain completed")
	return Result{Checkpoint: true}, nil
}

// untilDrainTimeout makes sure that the limit of a drain is noticed when it is reached.
func (s *Scope) untilDrainTimeout(after time.Duration) time.Duration {
	timeout, limited := s.State.NodeDrainTimeout.Get()
	if !limited || timeout <= 0 {
		return after
	}
	return soonest(after, max(s.State.DrainStarted.Add(timeout).Sub(s.Now), time.Second))
}

func (s *Scope) releaseNode() {
	if s.Workload.Drainer != nil && s.State.Node.Name != "" {
		s.Workload.Drainer.Release(s.State.Node.Name)
	}
}
