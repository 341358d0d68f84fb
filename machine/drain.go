package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// nodeStageFacts are the inputs of decideDrain and decideVolumes, the stages of a deletion that need the Node.
type nodeStageFacts struct {
	Care nodeCare
	// CareReason is why there is careNone, and Excluded why the stage is left out in any case: by annotation, or without a Workload member.
	CareReason, Excluded string
	Infrastructure       external.Object
	// InfrastructureGone: the API server confirmed that the object is gone, or has accepted its deletion; or a Driver reported that its
	// instance is being deleted. InstanceGone: the provider reported that the instance is gone.
	InfrastructureGone, InstanceGone bool
	NodesSynced                      bool
	// Skipped: the Nodes are unread, and the deletion continues without the stage. Unread says why it continues, or what it waits for.
	Skipped bool
	Unread  string
	Match   noderef.Match
	// Disowned: the recorded Node exists, and the Machine has no provider ID that would match it.
	Disowned bool
	State    *contract.MachineState
	Deletion contract.Deletion
	// Limit is how long the stage may take, zero for no limit. It counts from the recorded start, also when it changes meanwhile.
	Limit time.Duration
	Now   time.Time
}

// begins is when a stage began, zero before.
func (f nodeStageFacts) begins(stage string) time.Time { return f.Deletion.Stages[stage].Start }

// wasDrained reports whether the drain of a Node has ended.
func (f nodeStageFacts) wasDrained() bool {
	return f.Deletion.HasEnded(contract.StageDrain, f.Deletion.Node)
}

// nodeStage is a stage of a deletion that needs the Node.
type nodeStage struct {
	// step is its name, and exclude the annotation that excludes a Machine from it.
	step, exclude string
	// impossible: this controller has no access to the Nodes that the stage needs.
	impossible bool
	started    time.Time
	limit      time.Duration
}

func (s *Scope) nodeStageFacts(ctx context.Context, stage nodeStage) (nodeStageFacts, error) {
	facts := nodeStageFacts{
		Care: s.decidedCare(), CareReason: s.careReason, Infrastructure: s.Infrastructure, InstanceGone: s.InstanceGone,
		NodesSynced: s.NodesSynced,
		Match:       s.Node, Disowned: s.disowned(), State: &s.State, Deletion: s.deletion,
		Limit: stage.limit, Now: s.Now,
	}
	if _, excluded := s.State.Annotations[stage.exclude]; excluded {
		facts.Excluded = "the Machine has the annotation " + stage.exclude
	} else if s.NodesErr == nil && stage.impossible {
		facts.Excluded = "this controller drains no Nodes"
	}
	if facts.Excluded != "" || facts.InstanceGone || facts.Care == careNone {
		return facts, nil
	}
	var err error
	if facts.InfrastructureGone, err = s.confirmInfrastructureGone(ctx); err != nil {
		return facts, err
	}
	facts.InfrastructureGone = facts.InfrastructureGone || s.instanceGoing || s.isGoing(s.Infrastructure)
	if !facts.InfrastructureGone && s.begins(contract.StagePreTerminateHooks).IsZero() {
		s.confirmNoNode(ctx)
		facts.NodesSynced = s.NodesSynced
	}
	if !facts.NodesSynced {
		facts.Skipped, facts.Unread = s.skipsUnreachable(stage.step, stage.started, stage.limit)
	}
	return facts, nil
}

// orExclude tells a person what to do about a Node that cannot be drained now.
const orExclude = ", or set the annotation " + contract.ExcludeDrain

type drainAction uint8

const (
	drainSkip drainAction = iota
	drainWait
	// drainUnread: wait for the Nodes, and record that the stage began.
	drainUnread
	drainRecord
	drainStart
	drainContinue
	// drainOverdue: the drain was not completed, and the deletion goes on.
	drainOverdue
)

// decideDrain decides about the Node of a Machine that is being deleted. A Node is drained once. A Node whose instance is gone or being
// deleted cannot be drained. A Node that was not read may exist. Once the Machine has begun to wait for pre-terminate hooks, the drain is
// over, however it ended: the hooks may have shut down the cluster's API server (kubernetes-sigs/cluster-api#11591).
func decideDrain(f nodeStageFacts) (drainAction, string) {
	why, skip := f.excluded()
	switch {
	case skip:
		return drainSkip, why
	case isUnreadYet(f.Infrastructure) && !f.begins(contract.StageDrain).IsZero():
		// An earlier process may have finished the drain: the deletion of the infrastructure may be the only record of that, and a process that
		// has just started has not read it yet.
		ref := f.Infrastructure.Ref
		return drainWait, ref.Kind + " " + ref.Name + " could not be read yet" + because(f.Infrastructure.Problem)
	case !f.NodesSynced && f.Deletion.HasEnded(contract.StageDrain, f.State.Node.UID):
		return drainSkip, ""
	case !f.NodesSynced && f.Skipped:
		return drainOverdue, f.Unread
	case !f.NodesSynced:
		return drainUnread, f.Unread
	}
	return decideDrainAmong(f)
}

// excluded reports whether the Node is not drained in any case, and why; the reason is empty when the drain is over.
func (f nodeStageFacts) excluded() (why string, skip bool) {
	// A Node that has registered again since it was drained may have pods again.
	registeredAgain := f.wasDrained() && f.Match.Node != nil && f.Match.Node.UID != f.Deletion.Node
	switch {
	case f.Care == careNone:
		return f.CareReason, true
	case f.Excluded != "":
		return f.Excluded, true
	case f.InstanceGone:
		return "the machine no longer exists", true
	case !f.begins(contract.StagePreTerminateHooks).IsZero() && registeredAgain:
		return "it registered again after it was drained, when pre-terminate hooks were waited for already", true
	case !f.begins(contract.StagePreTerminateHooks).IsZero():
		return f.unlessBegun("pre-terminate hooks were waited for before there was a Node to drain"), true
	case f.InfrastructureGone, f.Infrastructure.Deleting():
		return f.unlessBegun(f.infrastructure() + " is gone or being deleted already"), true
	}
	return "", false
}

// infrastructure is what a message calls the infrastructure: with a Driver there is no object.
func (f nodeStageFacts) infrastructure() string {
	if ref := f.Infrastructure.Ref; !ref.IsZero() {
		return ref.Kind + " " + ref.Name
	}
	return "the instance"
}

// decideDrainAmong decides when the Nodes were read.
func decideDrainAmong(f nodeStageFacts) (drainAction, string) {
	switch f.Match.Outcome {
	case noderef.NoProviderID:
		if f.Disowned {
			return contestedDrain(f, "Node "+f.State.Node.Name+" is recorded, and the Machine has no provider ID, so nothing says that the Node "+
				"is still its own: give it back its provider ID, which its contract.Kind has to write and read")
		}
		return drainSkip, ""
	case noderef.Stale:
		return drainSkip, anotherMachines
	case noderef.NotFound:
		return drainSkip, ""
	case noderef.Matched, noderef.Readopted:
		return decideDrainOf(f)
	case noderef.Claimed:
		return contestedDrain(f, claimed(f.Match, f.State))
	case noderef.Ambiguous, noderef.Unknown:
	}
	return contestedDrain(f, ambiguous(f.Match, f.State.ProviderID))
}

// Reasons why a Node does not count as the Machine's own.
const (
	anotherMachines = "the Node of that name is another machine's"
	nothingSaysOwn  = "the Machine has no provider ID, so nothing says that the Node is its own"
)

// unlessBegun: a drain that had begun was not left out. Its completion may not have been written.
func (f nodeStageFacts) unlessBegun(why string) string {
	if !f.begins(contract.StageDrain).IsZero() || f.wasDrained() {
		return ""
	}
	return why
}

// contestedDrain: while several Machines claim the Node it is not drained, until the limit of the drain is reached.
func contestedDrain(f nodeStageFacts, why string) (drainAction, string) {
	if limitReached(f.begins(contract.StageDrain), f.Limit, f.Now) {
		return drainOverdue, notWithin(f.Limit) + ": " + why
	}
	return drainWait, why + orExclude
}

func decideDrainOf(f nodeStageFacts) (drainAction, string) {
	switch {
	case f.Deletion.HasEnded(contract.StageDrain, f.Match.Node.UID):
		return drainSkip, ""
	case f.Match.Record:
		return drainRecord, "Node " + f.Match.Node.Name + " was matched: recording it first"
	case f.begins(contract.StageDrain).IsZero():
		return drainStart, "Drain not completed yet"
	case limitReached(f.begins(contract.StageDrain), f.Limit, f.Now):
		return drainOverdue, notWithin(f.Limit)
	}
	return drainContinue, ""
}

func drainStep(ctx context.Context, s *Scope) (Result, error) {
	if s.decidedCare() == careUnknown {
		return s.waitForCare()
	}
	facts, err := s.nodeStageFacts(ctx, nodeStage{
		step: StepDrain, exclude: contract.ExcludeDrain, impossible: s.Workload.Drainer == nil,
		started: s.begins(contract.StageDrain), limit: s.drainLimit(),
	})
	if err != nil {
		return Result{}, err
	}
	begin := func() { s.begin(contract.StageDrain) } // also while its Node cannot be read: the limit counts
	switch action, message := decideDrain(facts); action {
	case drainWait:
		begin()
		return s.waitFor(contract.ReasonDrainingNode, message, s.until(0, s.begins(contract.StageDrain), facts.Limit)), nil
	case drainUnread:
		begin()
		return s.waitUnread(contract.ReasonDrainingNode, message, s.begins(contract.StageDrain), facts.Limit)
	case drainRecord:
		s.urgent = true
		return s.recordFirst(contract.ReasonDrainingNode, message)
	case drainStart:
		begin()
		return s.recordFirst(contract.ReasonDrainingNode,
			fmt.Sprintf("%s (started at %s)", message, s.begins(contract.StageDrain).UTC().Format(time.RFC3339)))
	case drainContinue:
		return s.drain(ctx)
	case drainOverdue:
		s.skipDrain(message)
	case drainSkip: // volumesStep releases the Node: it may still need the pods
		what := "is not drained"
		if facts.Care == careNone {
			what = "is neither drained nor deleted"
		}
		s.reportLeft(EventNodeNotDrained, actionDrainNode, what, message)
	}
	return Result{}, nil
}

// skipDrain records that the deletion continues without a completed drain.
func (s *Scope) skipDrain(why string) {
	s.reportSkipped(EventDrainFailed, actionDrainNode, fmt.Sprintf(
		"error draining Machine's node %q: %s: the deletion goes on without", s.State.Node.Name, why))
}

// disowned reports whether the recorded Node exists while the Machine has no provider ID, for example because its kind has no field for it
// and a step that runs in InRunning only sets it.
func (s *Scope) disowned() bool {
	if !s.NodesSynced || s.Node.Outcome != noderef.NoProviderID || s.State.Node.Name == "" {
		return false
	}
	node := s.Workload.Nodes.ByName(s.State.Node.Name)
	return node != nil && (s.State.Node.UID == "" || node.UID == s.State.Node.UID)
}

// drain continues the drain of the Node.
func (s *Scope) drain(ctx context.Context) (Result, error) {
	var result runner.Result
	rules, err := s.drainRules(ctx)
	if err == nil {
		s.watchNode()
		result, err = s.Workload.Drainer.Step(ctx, runner.Request{
			Node: s.Node.Node, Owner: s.State.Key, Rules: rules, Policy: s.env.options.Policy.DrainPolicy, StartedAt: s.begins(contract.StageDrain),
			PoweredOff: s.PoweredOff,
		})
	}
	started, limit := s.begins(contract.StageDrain), s.drainLimit()
	switch {
	case cluster.IsUnread(err):
		return s.waitFor(contract.ReasonDrainingNode, err.Error(), s.until(engine.ConflictRetry, started, limit)), nil
	case err != nil:
		s.Wait(contract.ReasonDrainingNode, err.Error())
		return Result{}, fmt.Errorf("drain Node %s: %w", s.Node.Node.Name, err)
	}
	s.waiting = &result.Counts
	if !result.Done {
		message := fmt.Sprintf("Drain not completed yet (started at %s):\n%s", started.UTC().Format(time.RFC3339), result.Message)
		return s.waitFor(contract.ReasonDrainingNode, strings.TrimSpace(message), s.until(result.RequeueAfter, started, limit)), nil
	}
	s.end(contract.StageDrain, s.Node.Node.UID)
	return Result{}, nil
}

// drainRules are the rules for the pods of this Machine's Node; nil means those of the Drainer.
func (s *Scope) drainRules(ctx context.Context) ([]drain.Rule, error) {
	rules := s.env.options.Policy.DrainRules
	if rules == nil {
		return nil, nil
	}
	return rules(ctx, s)
}

// watchNode remembers that this process watches the Node's pods or volumes from now on.
func (s *Scope) watchNode() {
	name, w := s.State.Node.Name, s.Workload
	s.memory.watch(watchedNode{name: name, release: func() { w.Release(name) }})
}

// releaseNode stops watching the pods and the volumes of the Node. It must not be called while the pass waits for either: they would be
// listed again. A Node of the recorded name may belong to another Machine by now, which may be draining it.
func (s *Scope) releaseNode() {
	watched := s.memory.watched
	s.memory.watched = watchedNode{}
	switch {
	case watched.release != nil:
		watched.release()
	case s.Node.Outcome != noderef.Stale && s.Node.Outcome != noderef.Claimed:
		s.Workload.Release(s.State.Node.Name) // a step of the embedder may have begun
	}
}
