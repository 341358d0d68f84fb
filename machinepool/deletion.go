package machinepool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
)

// NodeDeletionStartedAnnotation says when the deletion of a pool's Nodes began: when its instances and its bootstrap data were gone.
const NodeDeletionStartedAnnotation = "machinist.dev/node-deletion-started"

// waits says what a deletion waits for, as the condition Deleting.
func (p *pass) waits(reason, message string) {
	p.assert(condition(ConditionDeleting, metav1.ConditionTrue, reason, message))
}

// delete goes through the stages of a deletion, as far as it gets in this pass. Each stage has an end: what cannot be read, or does not
// go, is told in the condition Deleting and, where it has a limit, left out when that is reached.
func (p *pass) delete(ctx context.Context) error {
	p.waits(ReasonDeleting, "Deletion started")
	refused := errors.Join(p.observeBootstrap(ctx), p.observeInfrastructure(ctx)) // each holds up the stage that needs it
	if err := p.observeMachines(ctx); err != nil {
		return errors.Join(refused, err)
	}
	if err := p.observeNodes(ctx); err != nil { // Nodes that cannot be read hold up the stages that need them, within their limits
		p.requeue(conflictRetry)
	}
	stages := []func(context.Context) (bool, error){
		p.deleteAllMachines, p.drainAll, p.deleteInfrastructure, p.deleteBootstrap, p.deleteAllNodes,
	}
	for _, stage := range stages {
		if done, err := stage(ctx); err != nil || !done {
			p.unhidden = p.unhidden || p.stageChanged()
			return errors.Join(refused, err)
		}
	}
	p.waits(ReasonDeletionCompleted, "Deletion completed")
	p.main.Finalizers = contract.SetTo(slices.DeleteFunc(slices.Clone(p.state.Finalizers), func(name string) bool {
		return name == p.env.options.Finalizer
	}))
	p.finished, p.unhidden = true, true
	p.mem().release(nil)
	return nil
}

// stageChanged reports whether the deletion is in another stage than the status says.
func (p *pass) stageChanged() bool {
	said, _ := findCondition(p.state.Conditions, ConditionDeleting)
	now, _ := findCondition(p.asserted, ConditionDeleting)
	return said.Reason != now.Reason
}

// drainAllAction is what to do about the Nodes of a pool whose instances are about to be deleted.
type drainAllAction uint8

const (
	drainNone drainAllAction = iota
	drainBegin
	drainGo
	drainUnread
	// drainGiveUp: go on without, and say so.
	drainGiveUp
)

type drainAllFacts struct {
	// Wanted: draining is configured, the cluster is not being deleted, and the instances still exist.
	Wanted bool
	Known  bool
	// Started is zero before the drain began. UnreadSince is since when this process cannot read the Nodes.
	Started, UnreadSince time.Time
	// Limit is how long it may take, and UnreadLimit how long it waits for Nodes that cannot be read; zero and below mean no limit.
	Limit, UnreadLimit time.Duration
	Now                time.Time
}

// decideDrainAll: the start is recorded before the first Node is cordoned, so that its limit counts from there in every process. A pool
// must not wait for ever for a cluster that is gone without a record of that; but a long drain is not given up because the connection or
// the process is restarted.
func decideDrainAll(f drainAllFacts) drainAllAction {
	switch {
	case !f.Wanted:
		return drainNone
	case f.Started.IsZero():
		return drainBegin
	case reached(f.Started, f.Limit, f.Now), !f.Known && reached(f.UnreadSince, f.UnreadLimit, f.Now):
		return drainGiveUp
	case !f.Known:
		return drainUnread
	}
	return drainGo
}

// reached reports whether something that began has had its time; zero and below are for ever.
func reached(began time.Time, limit time.Duration, now time.Time) bool {
	return limit > 0 && !began.IsZero() && !now.Before(began.Add(limit))
}

func (p *pass) drainAll(ctx context.Context) (bool, error) {
	facts := drainAllFacts{
		Wanted: p.wantsDrain(), Known: p.nodesKnown, Started: p.started(contract.DrainStartedAnnotation), UnreadSince: p.mem().nodesUnread,
		Limit: p.drainLimit(), UnreadLimit: p.env.options.Policy.UnreadLimit, Now: p.now,
	}
	switch decideDrainAll(facts) {
	case drainNone:
		p.mem().release(nil)
		return true, nil
	case drainGiveUp:
		p.tell(corev1.EventTypeWarning, EventDrainFailed, "The Nodes were not drained in time: the deletion goes on without")
		p.mem().release(nil)
		return true, nil
	case drainBegin:
		p.begin(contract.DrainStartedAnnotation)
		p.waits(ReasonDrainingNode, "Drain not completed yet")
		return false, nil
	case drainUnread:
		p.waits(ReasonDrainingNode, "The Nodes cannot be read: "+p.unread.Message)
		p.requeueAt(facts.Started, facts.Limit)
		p.requeueAt(facts.UnreadSince, facts.UnreadLimit)
		return false, nil
	case drainGo:
	}
	var left []*corev1.Node
	for _, node := range slices.Concat(p.match.Nodes, p.match.Retired) {
		if !p.wasDrained(node) && node.DeletionTimestamp == nil {
			left = append(left, node)
		}
	}
	over := 0
	err := p.drain(ctx, left, facts.Started, func(*corev1.Node) error { over++; return nil })
	switch {
	case over == len(left) && p.missedHolds(facts.UnreadLimit):
		p.waits(ReasonDrainingNode, p.missed)
		p.requeueAt(facts.Started, facts.Limit)
		return false, err
	case over == len(left):
		if p.missed != "" {
			p.tell(corev1.EventTypeWarning, EventDrainFailed, "%s: the deletion goes on without their drain", p.missed)
		}
		return true, err
	}
	p.waits(ReasonDrainingNode, drainProgress(facts.Started, len(left)-over, p.attached))
	p.requeueAt(facts.Started, facts.Limit)
	return false, err
}

// drainProgress says how many Nodes are left, and which of them have volumes attached. What is said of volumes is that of the first Node.
func drainProgress(started time.Time, left int, attached map[string]string) string {
	message := fmt.Sprintf("Drain not completed yet (started at %s): %d Nodes are left", started.UTC().Format(time.RFC3339), left)
	names := slices.Sorted(maps.Keys(attached))
	if len(names) == 0 {
		return message
	}
	return message + "; waiting for volumes of " + named(names) + ":\n" + attached[names[0]]
}

// wantsDrain says whether the Nodes are to be drained before the instances go: not where Machines did it, not when the instances are
// gone or going already or stay with another controller, and not when the cluster goes too.
func (p *pass) wantsDrain() bool {
	if p.isExcluded() || p.env.options.Policy.NoDrain || p.ledByMachines() || !p.nodesMatter() || (p.nodesKnown && p.workload.Drainer == nil) {
		return false
	}
	if p.infrastructure.Foreign || (p.infrastructure.Presence != external.Present && p.infrastructure.Presence != external.Unread) {
		return false
	}
	return !p.isGoing(p.infrastructure)
}

// nodesMatter says that the Nodes outlive the pool: not when their cluster is gone, or goes too.
func (p *pass) nodesMatter() bool {
	return p.cluster.Presence != external.Absent && p.cluster.State.Deleting.IsZero()
}

func (p *pass) deleteInfrastructure(ctx context.Context) (bool, error) {
	return p.deleteReferenced(ctx, p.infrastructure, p.infraReady, ReasonWaitingForInfrastructureDeletion)
}

func (p *pass) deleteBootstrap(ctx context.Context) (bool, error) {
	return p.deleteReferenced(ctx, p.bootstrap, false, ReasonWaitingForBootstrapDeletion)
}

// isGoing reports whether a referenced object is on its way out, as the cache or this process knows.
func (p *pass) isGoing(e external.Object) bool {
	if e.Object == nil {
		return false
	}
	_, asked := p.mem().asked[e.Object.GetUID()]
	return asked || e.Deleting()
}

// deleteReferenced deletes one object, by UID, and is done when the API server confirms that it is gone. mattered is true when real
// instances may exist for it, which could not be found again if its kind is missing.
func (p *pass) deleteReferenced(ctx context.Context, e external.Object, mattered bool, reason string) (bool, error) {
	name := e.Ref.Kind + " " + e.Ref.Name
	key := types.NamespacedName{Namespace: p.state.Key.Namespace, Name: e.Ref.Name}
	switch e.Presence {
	case external.NotReferenced:
		return true, nil
	case external.Absent:
		return p.confirmGone(ctx, e.GVK, key, reason, name+" exists, but has not been seen yet")
	case external.KindMissing:
		if !mattered {
			return p.confirmGone(ctx, external.CRDGVK(), types.NamespacedName{Name: contract.CRDName(e.Ref.GroupKind())}, reason, e.Problem.Message)
		}
		p.waits(reason, e.Problem.Message+"; instances were made for this MachinePool and cannot be found without it")
		return false, nil
	case external.Present:
		if e.Foreign {
			return true, nil
		}
		p.waits(reason, "Waiting for "+name+" to be deleted")
		return false, p.deleteExternal(ctx, e)
	case external.Unread:
	}
	why := name + " could not be read yet"
	if e.Problem.Message != "" {
		why = e.Problem.Message
	}
	p.waits(reason, why)
	return false, nil
}

func (p *pass) confirmGone(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, reason, message string) (bool, error) {
	gone, err := external.ConfirmAbsent(ctx, p.env.ports.APIReader, gvk, key)
	if err == nil && !gone {
		p.waits(reason, message)
		p.requeue(external.AbsenceRetry)
	}
	return gone, err
}

// deleteExternal asks for the deletion of a referenced object, once.
func (p *pass) deleteExternal(ctx context.Context, e external.Object) error {
	if p.isGoing(e) {
		return nil
	}
	uid := e.Object.GetUID()
	err := p.env.ports.Client.Delete(ctx, e.Object.DeepCopy(), client.Preconditions{UID: &uid})
	if err != nil && !external.SaysGone(err) {
		return fmt.Errorf("delete %s %s: %w", e.Ref.Kind, e.Ref.Name, err)
	}
	p.mem().asked[uid] = struct{}{}
	return nil
}

// deleteAllNodes deletes the Nodes that were recorded as the pool's, when the instances are gone. Its limit counts from then on, and not
// from when deletion was asked for: instances take minutes to go. A Node that joined late is recorded first.
func (p *pass) deleteAllNodes(ctx context.Context) (bool, error) {
	if !p.nodesMatter() || p.hasNoNodes() || p.infrastructure.Foreign { // another controller's instances stay, and their Nodes with them
		return true, nil
	}
	limit := p.state.Template.NodeDeletionTimeout.Or(DefaultNodeDeletionTimeout)
	started := p.started(NodeDeletionStartedAnnotation)
	if started.IsZero() {
		p.begin(NodeDeletionStartedAnnotation)
	}
	p.requeueAt(started, limit)
	if !p.nodesKnown {
		p.waits(ReasonDeletingNode, "The Nodes cannot be read: "+p.unread.Message)
		p.requeueAt(p.mem().nodesUnread, limit)
		return p.givesNodesUp(reached(started, limit, p.now) && reached(p.mem().nodesUnread, limit, p.now), limit), nil
	}
	nodes := p.recordedNodes()
	names := make([]string, 0, len(nodes))
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	p.waits(ReasonDeletingNode, strings.TrimSuffix("Waiting for Nodes to be deleted: "+named(names), ": "))
	if len(nodes) == 0 && p.missed != "" {
		p.waits(ReasonDeletingNode, p.missed)
	}
	p.unhidden = p.unhidden || len(p.match.Nodes)+len(p.match.Retired) > len(nodes)
	refused, err := p.deleteNodes(ctx, nodes)
	if err != nil {
		p.waits(ReasonDeletingNode, err.Error())
		p.requeue(conflictRetry)
	}
	over := reached(started, limit, p.now) && (refused || !slices.ContainsFunc(nodes, p.isUnasked))
	return p.givesNodesUp(over, limit), nil
}

// isUnasked reports whether the deletion of a Node was not requested yet. While any are left, the pool continues: a large pool has
// more Nodes than can be deleted within the limit, which is for Nodes that cannot be deleted or do not disappear.
func (p *pass) isUnasked(node *corev1.Node) bool {
	_, asked := p.mem().asked[node.UID]
	return !asked && node.DeletionTimestamp == nil
}

func (p *pass) givesNodesUp(over bool, limit time.Duration) bool {
	if over {
		p.tell(corev1.EventTypeWarning, EventNodeDeletionFailed, "Nodes of the pool were not deleted within %s: the deletion goes on without", limit)
	}
	return over
}

// hasNoNodes reports that no Node is the pool's. One that cannot be read may be, if it was recorded or there were instances.
func (p *pass) hasNoNodes() bool {
	if p.nodesKnown {
		return len(p.match.Nodes)+len(p.match.Retired) == 0 && p.missed == ""
	}
	return len(p.state.Nodes) == 0 && len(p.ids) == 0
}

// recordedNodes are the Nodes of the pool that the stored status names with their UIDs.
func (p *pass) recordedNodes() []*corev1.Node {
	recorded := make(map[contract.NodeRef]struct{}, len(p.state.Nodes))
	for _, ref := range p.state.Nodes {
		recorded[ref] = struct{}{}
	}
	return slices.DeleteFunc(slices.Concat(p.match.Nodes, p.match.Retired), func(node *corev1.Node) bool {
		_, found := recorded[contract.NodeRef{Name: node.Name, UID: node.UID}]
		return !found
	})
}

// started is when a stage began, zero before.
func (p *pass) started(annotation string) time.Time {
	at, err := time.Parse(time.RFC3339, p.state.Annotations[annotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// begin records that a stage began.
func (p *pass) begin(annotation string) {
	p.changeAnnotation(annotation, contract.SetTo(p.now.UTC().Format(time.RFC3339)))
}

func (p *pass) changeAnnotation(key string, to contract.Change[string]) {
	if p.main.Annotations == nil {
		p.main.Annotations = map[string]contract.Change[string]{}
	}
	p.main.Annotations[key] = to
}

// forgetDeletion drops what a pool that lives says of a deletion: it comes from a backup that was made in the midst of one, and the limits
// of a later one would be reached before it began.
func (p *pass) forgetDeletion() {
	for _, key := range []string{contract.DrainStartedAnnotation, NodeDeletionStartedAnnotation} {
		if _, found := p.state.Annotations[key]; found {
			p.changeAnnotation(key, contract.Cleared[string]())
		}
	}
}

// requeueAt asks for a pass when a limit is reached.
func (p *pass) requeueAt(started time.Time, limit time.Duration) {
	if limit <= 0 {
		return
	}
	if started.IsZero() {
		started = p.now
	}
	p.requeue(max(started.Add(limit).Sub(p.now), time.Second))
}
