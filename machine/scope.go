package machine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
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
