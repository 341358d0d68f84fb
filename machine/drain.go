package machine

import (
	"context"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

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
		return s.Wait(ReasonDrainingNode, message), nil
	case drainRecord:
		s.urgent = true
		s.Wait(ReasonDrainingNode, message)
		return Result{Checkpoint: true}, nil
	case drainStart:
		s.SetDrainStarted(s.Now)
		s.Wait(ReasonDrainingNode, fmt.Sprintf("%s (started at %s)", message, s.State.DrainStarted.UTC().Format(time.RFC3339)))
		return Result{Checkpoint: true}, nil
	case drainGo:
		return s.drain(ctx)
	case drainSkip:
		s.releaseNode()
	}
	return Result{}, nil
}
