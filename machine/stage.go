package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// Stage is one stage of a deletion. A deletion processes its stages in the order of the list of steps, and checks each in every pass: a
// stage is excluded, waits for what it needs, runs, is over its limit, or is done. A stage of your own can have its own limit:
//
//	steps := machine.Steps().InsertBefore(machine.StepDrain, machine.Stage{Name: "backup", Reason: "Backup", Limit: ..., Run: ...}.Step())
type Stage struct {
	// Name is the name of the step, and of the stage in the record of the deletion.
	Name string
	// Reason is the reason of the condition Deleting while the stage waits.
	Reason string
	// Excluded returns why a Machine skips the stage, and an empty text otherwise. An event reports it. Nil: no Machine skips it.
	Excluded func(*Scope) string
	// Limit returns how long the stage may take, from the first pass in which it waits; zero for no limit. When it is over, the deletion
	// continues without the stage, and a Warning event reports that. Nil: no limit.
	Limit func(*Scope) time.Duration
	// Needs returns what the stage must wait for before it can run, as a sentence, and an empty text for nothing. Nil: nothing.
	Needs func(*Scope) string
	// Run makes one pass of the stage. It returns Scope.Wait with a message until the stage is done, and then the zero Result. It is called in
	// each pass until the finalizer is removed, unless the stage has waited and is done, which is recorded if it has a limit.
	Run func(context.Context, *Scope) (Result, error)

	// care: the stage needs the decision whether the Node is drained and deleted. nodes: it needs the Nodes. confirm makes the requests that
	// confirm them.
	care, nodes bool
	confirm     func(*Scope, context.Context) error
	// done reports that nothing is left to do, without an event. after is called when the deletion continues behind the stage.
	done  func(*Scope) bool
	after func(*Scope)
	// started returns when the limit began to count; nil and zero: when the stage began. last: the instance is already gone, and Run makes an
	// attempt even when the limit is over, because it may have passed while the Nodes were unread.
	started func(*Scope) time.Time
	last    bool
	// left and failed are the reasons of the events about a skipped stage and about a stage over its limit; no event without left. failure is
	// the text of the second event, with the Node's name and the reason.
	left, failed, failure, action string
	// exits describes what a person can do about a stage that waits for its Node.
	exits string
}

// Reasons of the events about a Stage of an embedder.
const (
	EventStageExcluded = "DeletionStageExcluded" // a Machine skips the stage; the note has the reason
	EventStageFailed   = "DeletionStageFailed"   // the stage is over its limit, and the deletion continues
	actionDelete       = "Delete"
)

// Step returns the step that runs a stage, for Machines that are being deleted.
func (stage Stage) Step() Step {
	return Step{Name: stage.Name, On: engine.InDeletion, Run: stage.run}
}

// stageFacts are the inputs of decideStage.
type stageFacts struct {
	// CareUnknown is why it is unknown whether the Node is drained and deleted, empty when it is known or does not matter.
	CareUnknown string
	Excluded    string
	Done        bool
	// Needs is what the stage waits for. Unread is why the Nodes, if the stage needs them, are unread.
	Needs, Unread string
	// Started is when the stage began, zero before; Limit is how long it may take, zero for no limit. Last: one attempt is made after the
	// limit.
	Started time.Time
	Limit   time.Duration
	Last    bool
	// ClusterGone: the Cluster is gone or being deleted. InstanceGone: the provider, or the API server for the infrastructure object, has
	// reported that the instance no longer exists. PoweredOff: it is off. The last two are not set for the stage that deletes the Node.
	ClusterGone, InstanceGone, PoweredOff bool
	Now                                   time.Time
}

type stageAction uint8

const (
	// stageRuns: one pass of the stage is made.
	stageRuns stageAction = iota
	// stageExcluded: the Machine skips the stage. stageDone: nothing is left to do.
	stageExcluded
	stageDone
	// stageWaits: the stage waits for what it needs. stageUnread: it waits for the Nodes.
	stageWaits
	stageUnread
	// stageOver: the deletion continues without the stage, because of its limit or because it cannot be done any more.
	stageOver
)

// decideStage decides about a stage of a deletion, and returns the reason. Facts that are unread are neither absent nor done.
func decideStage(f stageFacts) (stageAction, string) {
	over := limitReached(f.Started, f.Limit, f.Now)
	switch {
	case f.CareUnknown != "":
		return stageWaits, "Waiting to know whether the Node is to be drained: " + f.CareUnknown
	case f.Excluded != "":
		return stageExcluded, f.Excluded
	case f.Done:
		return stageDone, ""
	case f.Unread != "":
		if why := f.whyWithoutNodes(over); why != "" {
			return stageOver, fmt.Sprintf("%s, while its Nodes could not be read: %s", why, f.Unread)
		}
		return stageUnread, f.Unread
	case f.Needs != "" && over:
		return stageOver, notWithin(f.Limit) + ": " + f.Needs
	case f.Needs != "":
		return stageWaits, f.Needs
	case over && !f.Last:
		return stageOver, notWithin(f.Limit)
	}
	return stageRuns, ""
}

// whyWithoutNodes returns why a deletion continues without a stage whose Nodes cannot be read, empty while it waits for them. An instance
// that is gone or off runs no Pods that could be drained.
func (f stageFacts) whyWithoutNodes(over bool) string {
	switch {
	case f.ClusterGone:
		return "the Cluster no longer exists, or is being deleted"
	case f.InstanceGone:
		return "the machine no longer exists"
	case f.PoweredOff:
		return "the machine is off"
	case over:
		return notWithin(f.Limit)
	}
	return ""
}

// run makes one pass of a stage.
func (stage Stage) run(ctx context.Context, s *Scope) (Result, error) {
	if stage.confirm != nil && s.decidedCare() == careDrainAndDelete {
		if err := stage.confirm(s, ctx); err != nil {
			return Result{}, err
		}
	}
	result, err := stage.decided(ctx, s)
	if stage.after != nil && err == nil && !result.Stop && !result.Checkpoint {
		stage.after(s)
	}
	return result, err
}

// decided carries out the decision about a stage.
func (stage Stage) decided(ctx context.Context, s *Scope) (Result, error) {
	facts := s.stageFacts(stage)
	switch action, why := decideStage(facts); action {
	case stageExcluded:
		s.reportLeft(stage, why)
	case stageOver:
		s.reportFailed(stage, why)
	case stageDone:
	case stageWaits, stageUnread:
		return s.waitForStage(stage, facts, why)
	case stageRuns:
		return stage.pass(ctx, s)
	}
	return Result{}, nil
}

// times returns when the limit of a stage began to count, zero before, and how long the stage may take, zero for no limit.
func (stage Stage) times(s *Scope) (started time.Time, limit time.Duration) {
	if started = s.begins(stage.Name); stage.started != nil {
		started = cmp.Or(stage.started(s), started)
	}
	if stage.Limit != nil {
		limit = stage.Limit(s)
	}
	return started, limit
}

// pass runs a stage. If the stage has a limit, its start is recorded when it waits. The end of an embedder's stage that has waited is
// recorded too, so that no later pass reports it as over its limit.
func (stage Stage) pass(ctx context.Context, s *Scope) (Result, error) {
	result, err := stage.Run(ctx, s)
	started, limit := stage.times(s) // after Run, which may have found that the Nodes cannot be read
	switch waits := result.Stop || err != nil; {
	case waits && stage.last && limitReached(started, limit, s.Now):
		why := notWithin(limit)
		if err != nil {
			why += ": " + err.Error()
		}
		s.reportFailed(stage, why)
		return Result{}, nil
	case waits && limit > 0:
		if started.IsZero() {
			result.Checkpoint = s.begin(stage.Name) || result.Checkpoint
			started = s.begins(stage.Name)
		}
		result.RequeueAfter = s.until(result.RequeueAfter, started, limit)
	case waits:
	case stage.done == nil && stage.Limit != nil && !result.Checkpoint && !started.IsZero():
		s.end(stage.Name, s.deletion.Node)
	}
	return result, err
}

// stageFacts returns the facts about a stage, from what the pass has read.
func (s *Scope) stageFacts(stage Stage) stageFacts {
	f := stageFacts{
		Last: stage.last, ClusterGone: s.clusterDeleting(), Now: s.Now,
		InstanceGone: !stage.last && (s.InstanceGone || s.infrastructureGone), PoweredOff: !stage.last && s.PoweredOff,
	}
	f.Started, f.Limit = stage.times(s)
	if stage.care && s.decidedCare() == careUnknown {
		f.CareUnknown = s.careReason
		return f
	}
	if stage.Excluded != nil {
		f.Excluded = stage.Excluded(s)
	}
	f.Done = !s.deletion.Stages[stage.Name].End.IsZero()
	if stage.done != nil {
		f.Done = stage.done(s)
	}
	if stage.Needs != nil {
		f.Needs = stage.Needs(s)
	}
	if stage.nodes && !s.NodesSynced {
		f.Unread = s.unread()
		if f.Limit <= 0 && s.State.Node == (contract.NodeRef{}) { // it may never have had a Node, so the limit of the drain applies to all stages
			f.Started, f.Limit = s.begins(StepDrain), s.drainLimit()
		}
	}
	return f
}

// unreadRetry is the delay before another pass of a Machine in deletion whose Nodes could not be read.
const unreadRetry = 10 * time.Second

// waitForStage waits for what a stage needs, until an event, its limit or a retry. A limit counts from the start of the wait, even if it is
// set later.
func (s *Scope) waitForStage(stage Stage, f stageFacts, why string) (Result, error) {
	if f.CareUnknown != "" {
		return s.waitFor(contract.ReasonDeleting, why, s.Cluster.ControlPlane.RetryAfter), s.ClusterErr
	}
	if stage.Limit != nil {
		s.begin(stage.Name)
		f.Started = cmp.Or(f.Started, s.begins(stage.Name))
	}
	if stage.nodes {
		why += s.waysOut(stage, f.Unread != "")
	}
	after := time.Duration(0)
	switch {
	case f.Unread == "":
	case s.NodesErr == nil || !cluster.IsUnread(s.NodesErr): // no event ends it
		after = unreadRetry
	default: // each pass may ask the Driver of the Machine
		after = time.Minute
	}
	return s.waitFor(stage.Reason, why, s.until(after, f.Started, f.Limit)), nil
}

// reportLeft adds an event about a skipped stage, unless the drain has already reported that the Node is neither drained nor deleted. It is
// a Warning, unless an annotation of the Machine excludes the drain or the Node is deleted with its Cluster.
func (s *Scope) reportLeft(stage Stage, why string) {
	name, neither := s.State.Node.Name, s.decidedCare() == careNone
	if s.Node.Node != nil {
		name = s.Node.Node.Name
	}
	switch {
	case stage.left == "" && stage.failed == "":
		s.addEvent(corev1.EventTypeNormal, EventStageExcluded, actionDelete, fmt.Sprintf("stage %s is skipped: %s", stage.Name, why))
		return
	case stage.left == "" || name == "" || neither && stage.last: // the drain has reported both
		return
	}
	_, excluded := s.State.Annotations[contract.ExcludeDrain]
	kind, what := corev1.EventTypeWarning, "is not drained"
	switch {
	case neither:
		what = "is neither drained nor deleted"
	case stage.last:
		excluded, what = false, "is not deleted"
	}
	if excluded || s.clusterDeleting() {
		kind = corev1.EventTypeNormal
	}
	s.addEvent(kind, stage.left, stage.action, fmt.Sprintf("Node %s %s: %s", name, what, why))
}

// reportFailed adds an event that the deletion continues without a stage.
func (s *Scope) reportFailed(stage Stage, why string) {
	reason, action, note := EventStageFailed, actionDelete, fmt.Sprintf("stage %s: %s: the deletion continues without", stage.Name, why)
	if stage.failed != "" {
		reason, action, note = stage.failed, stage.action, fmt.Sprintf(stage.failure, s.State.Node.Name, why)
	}
	s.addEvent(corev1.EventTypeWarning, reason, action, note)
}

// clusterDeleting reports whether the Machine's Cluster is gone or being deleted.
func (s *Scope) clusterDeleting() bool {
	of := s.clusterOrUnread()
	return of.Presence == external.Absent || of.Presence == external.Present && !of.State.Deleting.IsZero()
}

// begins returns when a stage of the deletion began, zero before.
func (s *Scope) begins(stage string) time.Time { return s.deletion.Stages[stage].Start }

// begin records the start of a stage, once, and reports whether it is new. The limit of the stage counts from there.
func (s *Scope) begin(stage string) bool {
	begins := s.deletion.Begin(stage, s.Now)
	s.recordDeletion()
	return begins
}

// end records that a stage has ended for the Node with this UID. Several ends in one pass are one write.
func (s *Scope) end(stage string, node types.UID) {
	s.deletion.End(stage, node, s.Now)
	s.recordDeletion()
}

// recordDeletion sets the record of the deletion. It removes it when the Machine is not being deleted, and removes the record of another
// deletion, which comes from a backup. A kind with Cluster API's fields for starts stores them there, where Cluster API's controller reads
// them.
func (s *Scope) recordDeletion() {
	for _, of := range []struct {
		stage string
		have  *time.Time
		into  *contract.Change[time.Time]
	}{
		{contract.StageDrain, &s.State.DrainStarted, &s.Update.DrainStarted},
		{contract.StageVolumes, &s.State.VolumeDetachStarted, &s.Update.VolumeDetachStarted},
	} {
		if begins := s.begins(of.stage); !begins.Equal(*of.have) {
			engine.Set(of.have, begins, of.into)
		}
	}
	for key, to := range s.deletion.Changes(s.State.Annotations, s.env.startsElsewhere...) {
		s.ChangeAnnotation(key, to)
	}
}

// startsElsewhere returns the stages for whose starts a kind has fields.
func startsElsewhere(kind contract.Kind) []string {
	missing, err := contract.CheckKind(kind)
	if err != nil {
		return nil // they are stored twice
	}
	member := map[string]string{contract.StageDrain: "DrainStarted", contract.StageVolumes: "VolumeDetachStarted"}
	return slices.DeleteFunc([]string{contract.StageDrain, contract.StageVolumes}, func(stage string) bool {
		return slices.ContainsFunc(missing, func(f contract.NotStored) bool { return f.Member == member[stage] })
	})
}
