package machine

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/phases"
)

// Scope is one pass over one Machine: what was read, the decisions so far, and the functions to act. Only the worker that runs the pass
// uses it.
type Scope struct {
	// Scope has the Object, its State, the Cluster, the time of the pass and the conditions.
	engine.Scope[contract.MachineState, contract.MachineUpdate]

	// Bootstrap and Infrastructure are what this pass knows about the referenced objects.
	Bootstrap, Infrastructure external.Object
	// Node is what this pass knows about the Machine's Node; NodesSynced is false while the Nodes could not be read.
	Node        noderef.Match
	NodesSynced bool
	// Workload is the access to the Machine's cluster. Writes to Nodes go through its Client. NodesErr says why it cannot be used now; it
	// is nil while only the first list of Nodes is missing.
	Workload Workload
	NodesErr error
	// InstanceGone and PoweredOff are for steps that ask a provider about the instance: InstanceGone means that it no longer exists, and
	// PoweredOff that it is off. When it no longer exists, the Node is not drained and its volumes are not waited for; when it is off,
	// volumes are not waited for, and Policy.DrainPolicy decides about its pods. Stages that wait for an unreachable cluster are
	// skipped then.
	InstanceGone, PoweredOff bool
	// Phase is the decision of the phase step in this pass: the phase, the reason, and what the Machine waits for. It is zero until that
	// step has run, which is the last one: read it in a closing step behind StepPhase. It stays zero for a paused Machine.
	Phase phases.Decision

	// care is the decision of this pass about the Node of a Machine in deletion, and careReason the reason for it; careUnknown before the
	// decision.
	care       nodeCare
	careReason string

	deletion contract.Deletion // how far the deletion is

	told         []engine.Event // of this pass
	failures     []string       // lines of Ready about failed steps of the embedder, while the Machine is not being deleted
	recordsFirst bool           // all of this pass must be stored before a later pass acts on the Node
	// validated says whether a Driver accepts the specification; absent without a Driver.
	validated contract.Opt[bool]
	// infrastructureGone: the API server confirmed that the infrastructure object is gone.
	infrastructureGone bool
	// instanceGoing: the Machine is being deleted, and so is the instance that its Driver has made.
	instanceGoing bool
	// contested: the decision waits until the Driver has said whose the instance is. heldBy is another Machine, whose it is. See claimNode.
	contested bool
	heldBy    string
	// nodesBehind: the recorded Node exists, and the index does not have it yet.
	nodesBehind bool
	matched     *corev1.Node         // the Node that this package's rules have found
	cluster     types.NamespacedName // of the Node; zero for that of Ports.Workload
	env         *Reconciler
	memory      *recollection // what this process remembers about the Machine
}

// ObjectAs returns the Machine of a pass as the embedder's own type, and false when it has another type. It is a view that must not be
// changed.
func ObjectAs[T contract.Object](s *Scope) (T, bool) {
	obj, ok := s.Object.(T)
	return obj, ok
}

// Pause makes the rest of the pass treat the Machine as paused, and returns a Result that stops it. It sets the condition Paused: with
// status True when a person or the Cluster requests the pause, which ends the drain of a Machine in deletion, or Unknown when that cannot
// be known. With an empty status it does not set the condition. Call it from a step that replaces StepPaused, which asserts Paused as
// False otherwise.
func (s *Scope) Pause(status metav1.ConditionStatus, reason, message string) Result {
	if status == metav1.ConditionTrue && s.Deleting() {
		s.releaseNode()
	}
	return s.Scope.Pause(status, reason, message)
}

// SetDataSecretName records the name of the bootstrap data Secret.
func (s *Scope) SetDataSecretName(name string) {
	engine.SetOpt(&s.State.DataSecretName, name, &s.Update.DataSecretName)
}

// SetProviderID records the provider ID.
func (s *Scope) SetProviderID(id string) {
	engine.Set(&s.State.ProviderID, id, &s.Update.ProviderID)
}

// SetNode records the matched Node. A recorded Node whose UID the object has lost is no new one: nothing reports it again.
func (s *Scope) SetNode(ref contract.NodeRef) {
	if old := s.State.Node; ref.Name != "" && (ref.Name != old.Name || old.UID != "" && ref.UID != old.UID) {
		s.tell(corev1.EventTypeNormal, EventNodeMatched, actionMatchNode, ref.Name)
	}
	engine.Set(&s.State.Node, ref, &s.Update.Node)
}

// setPhase records the phase.
func (s *Scope) setPhase(phase string) {
	if s.State.Phase == phase {
		return
	}
	engine.Set(&s.State.Phase, phase, &s.Update.Phase)
	engine.Set(&s.State.LastUpdated, s.Now, &s.Update.LastUpdated)
}

// SetFailureDomain records the failure domain of the instance.
func (s *Scope) SetFailureDomain(domain string) {
	engine.Set(&s.State.FailureDomain, domain, &s.Update.FailureDomain)
}

// SetAddresses records the addresses of the machine.
func (s *Scope) SetAddresses(addresses []contract.Address) {
	if slices.Equal(s.State.Addresses, addresses) {
		return
	}
	s.State.Addresses = slices.Clone(addresses)
	s.Update.Addresses = contract.SetTo(s.State.Addresses)
}

// SetBootstrapReady and SetInfrastructureReady record that a stage was reached. They cannot be reset. A kind without a field for the value
// loses it after the pass, so call them in each pass; that causes no write.
func (s *Scope) SetBootstrapReady() {
	engine.SetOpt(&s.State.BootstrapReady, true, &s.Update.BootstrapReady)
}

// SetInfrastructureReady records that the infrastructure was provisioned. Without [StepInfrastructure], a step of your own must call it:
// the phase Running requires it.
func (s *Scope) SetInfrastructureReady() {
	engine.SetOpt(&s.State.InfrastructureReady, true, &s.Update.InfrastructureReady)
}

// SetFailure records a failure that does not end without a change; empty texts clear it.
func (s *Scope) SetFailure(reason, message string) {
	engine.Set(&s.State.FailureReason, reason, &s.Update.FailureReason)
	engine.Set(&s.State.FailureMessage, message, &s.Update.FailureMessage)
}

// recollection is what a process remembers about one Machine between passes. Losing it costs time or one rejected write, never correctness.
// It belongs to the worker that reconciles the Machine. The patch.Writer knows which writes the caches do not show yet.
type recollection struct {
	// told are the events of the last pass that did not fail, and in a deletion the last ones of all its passes.
	told []engine.Event
	// watched is the Node whose pods or volumes this process watches for the Machine.
	watched watchedNode
	// unreadSince is since when Nodes or referenced objects are unread, zero while they are read.
	unreadSince time.Time
	// token is the bootstrap token of the Machine.
	token joinToken
	// announced is the last call of the Driver before which a pass has ended.
	announced provider.Operation

	ofDeletion
}

// ofDeletion is what a process remembers about one deletion of a Machine; zero while the Machine is not being deleted.
type ofDeletion struct {
	// requestedAt is the deletion timestamp of the Machine.
	requestedAt time.Time
	// gone and requested are about objects of the Machine. An object that the API server confirmed as gone stays gone, and a deletion that it
	// accepted is not requested again: caches show both later.
	gone      map[goneObject]bool
	requested engine.Deletions
	// instanceGone: the Driver has said that nothing is left of the instance.
	instanceGone bool
	// instanceToken is that of the instance, once the Driver has reported it: usually the UID of the Machine that it was made for.
	instanceToken contract.Opt[string]
}

// observeDeletion forgets what belongs to another deletion than that of the Machine as read, zero for none. A backup that was restored has
// taken the other one back: its Node may not be drained any more, and objects that were gone or being deleted may exist again.
func (m *recollection) observeDeletion(requestedAt time.Time) {
	if m.requestedAt.Equal(requestedAt) {
		return
	}
	m.stopWatching()
	if !m.requestedAt.IsZero() {
		m.told = nil
	}
	m.ofDeletion = ofDeletion{requestedAt: requestedAt}
}

// tells returns those of a pass's events that are new, and remembers them. A stage that is left out is left out in each pass of a deletion,
// and a pass that waits for something else in between does not get there.
func (m *recollection) tells(told []engine.Event, deleting bool) []engine.Event {
	fresh := slices.DeleteFunc(slices.Clone(told), func(e engine.Event) bool { return slices.Contains(m.told, e) })
	if !deleting {
		m.told = told
		return fresh
	}
	m.told = append(m.told, fresh...)
	m.told = slices.Clone(m.told[max(0, len(m.told)-20):]) // more than a deletion has
	return fresh
}

// goneObject is an object that may be gone.
type goneObject struct {
	gvk  schema.GroupVersionKind
	name types.NamespacedName
}

// watchedNode is a Node whose pods or volumes are watched for a Machine, and the function that stops that.
type watchedNode struct {
	name    string
	release func()
}

// setGone remembers that an object of a Machine in deletion is gone.
func (m *recollection) setGone(object goneObject) {
	if m.gone == nil {
		m.gone = map[goneObject]bool{}
	}
	m.gone[object] = true
}

// watch remembers the Node that is watched from now on, and ends the drain of another one.
func (m *recollection) watch(node watchedNode) {
	before := m.watched
	if m.watched = node; before.release != nil && before.name != node.name {
		before.release()
	}
}

// stopWatching ends the drain of the Node that is watched, if there is one.
func (m *recollection) stopWatching() { m.watch(watchedNode{}) }
