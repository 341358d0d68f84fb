package machine

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/phases"
)

// Scope is one pass over one Machine: the facts that were read, the decisions so far, and the functions to act. Only the worker that runs
// the pass uses it.
type Scope struct {
	// Scope has the Object, its State, the Cluster, the time of the pass and the conditions.
	engine.Scope[contract.MachineState, contract.MachineUpdate]

	// Bootstrap and Infrastructure are the referenced objects as this pass has read them.
	Bootstrap, Infrastructure external.Object
	// Node is the result of the lookup of the Machine's Node; NodesSynced is false while the Nodes could not be read.
	Node        noderef.Match
	NodesSynced bool
	// Workload is the access to the Machine's cluster. Writes to Nodes go through its Client. NodesErr is why it cannot be used now; it is nil
	// while only the first list of Nodes is missing.
	Workload Workload
	NodesErr error
	// InstanceGone and PoweredOff are for steps that read the instance from a provider: the instance no longer exists, or is off. If it no
	// longer exists, the Node is not drained and its volumes are not waited for. If it is off, volumes are not waited for, and
	// Policy.DrainPolicy decides about its pods. In both cases, stages that wait for an unreachable cluster are skipped.
	InstanceGone, PoweredOff bool
	// Phase is the decision of the phase step in this pass: the phase, the reason, and what the Machine waits for. It is zero until that step,
	// the last one, has run: read it in a closing step behind StepPhase. It stays zero for a paused Machine.
	Phase phases.Decision

	// care is the decision of this pass about the Node of a Machine in deletion, careUnknown before it; careReason is its reason.
	care       nodeCare
	careReason string

	deletion contract.Deletion // the progress of the deletion

	events       []engine.Event // of this pass
	failures     []string       // lines of Ready about failed steps of the embedder, while the Machine is not being deleted
	recordsFirst bool           // all of this pass must be stored before a later pass acts on the Node
	// validated reports whether a Driver accepts the specification; absent without a Driver.
	validated contract.Opt[bool]
	// infrastructureGone: the API server confirmed that the infrastructure object is gone.
	infrastructureGone bool
	// instanceGoing: the Machine is being deleted, and so is the instance that its Driver has made.
	instanceGoing bool
	// contested: the decision waits until the Driver has reported the owner of the instance. heldBy is that owner, another Machine. See
	// claimNode.
	contested bool
	heldBy    string
	matched   *corev1.Node         // the Node that this package's rules have found
	cluster   types.NamespacedName // of the Node; zero for that of Ports.Workload
	env       *Reconciler
	memory    *recollection // the memory of this process about the Machine
}

// ObjectAs returns the Machine of a pass as the embedder's own type, and false when it has another type. It is a view and must not be
// changed.
func ObjectAs[T contract.Object](s *Scope) (T, bool) {
	obj, ok := s.Object.(T)
	return obj, ok
}

// SetDataSecretName records the name of the bootstrap data Secret.
func (s *Scope) SetDataSecretName(name string) {
	engine.SetOpt(&s.State.DataSecretName, name, &s.Update.DataSecretName)
}

// SetProviderID records the provider ID.
func (s *Scope) SetProviderID(id string) {
	engine.Set(&s.State.ProviderID, id, &s.Update.ProviderID)
}

// SetNode records the matched Node. It records no event for a Node whose UID the object has lost.
func (s *Scope) SetNode(ref contract.NodeRef) {
	if old := s.State.Node; ref.Name != "" && (ref.Name != old.Name || old.UID != "" && ref.UID != old.UID) {
		s.addEvent(corev1.EventTypeNormal, EventNodeMatched, actionMatchNode, ref.Name)
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

// SetBootstrapReady records that the bootstrap data is ready. Neither it nor SetInfrastructureReady can be reset. A kind without a field
// for the value loses it after the pass, so call them in each pass; that causes no write.
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

// recollection is the memory of a process about one Machine between passes. Losing it costs time or one rejected write, never correctness.
// It belongs to the worker that reconciles the Machine. patch.Writer has the writes that the caches do not show yet.
type recollection struct {
	// events are those of the last pass that did not fail; in a deletion, the last events of all its passes.
	events []engine.Event
	// watched is the Node whose pods or volumes this process watches for the Machine.
	watched watchedNode
	// unreadSince is the time since which Nodes or referenced objects are unread, zero while they are read.
	unreadSince time.Time
	// token is the bootstrap token of the Machine.
	token joinToken
	// announced is the last call of the Driver before which a pass was ended.
	announced provider.Operation

	ofDeletion
}

// ofDeletion is the memory of a process about one deletion of a Machine; zero while the Machine is not being deleted.
type ofDeletion struct {
	// requestedAt is the deletion timestamp of the Machine.
	requestedAt time.Time
	// gone and requested are about objects of the Machine, because caches are behind. An object that the API server confirmed as gone stays
	// gone, and a deletion that it accepted is not requested again.
	gone      map[string]bool
	requested engine.Deletions
	// noControlPlane: the API server has listed no active Machine of the Cluster's control plane.
	noControlPlane bool
	// instanceGone: the Driver has reported that nothing is left of the instance.
	instanceGone bool
	// instanceToken is the Token of the instance, once the Driver has reported it: usually the UID of the Machine that it was made for.
	instanceToken contract.Opt[string]
}

// observeDeletion forgets the facts of another deletion than the current one; zero means none. A restored backup has undone the other
// deletion: its Node may not be drained any more, and objects that were gone or being deleted may exist again.
func (m *recollection) observeDeletion(requestedAt time.Time) {
	if m.requestedAt.Equal(requestedAt) {
		return
	}
	m.stopWatching()
	if !m.requestedAt.IsZero() {
		m.events = nil
	}
	m.ofDeletion = ofDeletion{requestedAt: requestedAt}
}

// newEvents returns the new events of a pass, and remembers them. In a deletion it remembers those of earlier passes, because a pass that
// waits does not reach all stages.
func (m *recollection) newEvents(events []engine.Event, deleting bool) []engine.Event {
	fresh := slices.DeleteFunc(slices.Clone(events), func(e engine.Event) bool { return slices.Contains(m.events, e) })
	if !deleting {
		m.events = events
		return fresh
	}
	m.events = append(m.events, fresh...)
	m.events = slices.Clone(m.events[max(0, len(m.events)-20):]) // more than a deletion has
	return fresh
}

// confirmOnce returns the result of a request that confirms that something is gone, and makes none for what is gone already.
func (m *recollection) confirmOnce(what string, request func() (bool, error)) (bool, error) {
	if m.gone[what] {
		return true, nil
	}
	gone, err := request()
	if gone {
		if m.gone == nil {
			m.gone = map[string]bool{}
		}
		m.gone[what] = true
	}
	return gone, err
}

// watchedNode is a Node whose pods or volumes are watched for a Machine, and the function that stops that.
type watchedNode struct {
	name    string
	release func()
}

// watch records the Node that is watched from now on, and ends the drain of another one.
func (m *recollection) watch(node watchedNode) {
	before := m.watched
	if m.watched = node; before.release != nil && before.name != node.name {
		before.release()
	}
}

// stopWatching ends the drain of the Node that is watched, if there is one.
func (m *recollection) stopWatching() { m.watch(watchedNode{}) }
