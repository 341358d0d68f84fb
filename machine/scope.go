package machine

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/phases"
)

// Scope is one pass over one Machine: what was read, the decisions so far, and the functions to act. Only the worker that runs the pass
// uses it.
type Scope struct {
	// Object is the Machine as it was read. It may be shared with a cache and must not be changed.
	Object contract.Object
	// State is the state of the Machine, updated with the decisions of this pass.
	State contract.MachineState
	// Bootstrap and Infrastructure are what this pass knows about the referenced objects.
	Bootstrap, Infrastructure external.Object
	// Node is what this pass knows about the Machine's Node; NodesSynced is false while the Nodes could not be read.
	Node        noderef.Match
	NodesSynced bool
	// Workload is the access to the Machine's cluster. Writes to Nodes go through its Client. NodesErr says why it cannot be used now; it
	// is nil while only the first list of Nodes is missing.
	Workload Workload
	NodesErr error
	// Cluster is the result of Ports.ClusterOf for the Machine's Cluster, and ClusterErr its error. Both are zero where Machines have no
	// Clusters; then no Cluster delays or pauses a Machine.
	Cluster    external.ClusterView
	ClusterErr error
	// Care is the decision of this pass about the Node of a Machine in deletion, and CareReason the reason for it; CareUnknown before the
	// decision. A step that sets it decides instead of Policy.NodeCare.
	Care       NodeCare
	CareReason string
	// InstanceGone and PoweredOff are for steps that ask a provider about the instance: InstanceGone means that it no longer exists, and
	// PoweredOff that it is off. When it no longer exists, the Node is not drained and its volumes are not waited for; when it is off,
	// volumes are not waited for, and Policy.DrainPolicy decides about its pods. Stages that wait for an unreachable cluster may be
	// skipped, see Policy.Unreachable.
	InstanceGone, PoweredOff bool
	// Blockers are the pods that the drain waits for in this pass; nil without a drain. Shared, must not be changed.
	Blockers []drain.Blocker
	// Phase is the decision of the phase step in this pass: the phase, the reason, and what the Machine waits for. It is zero until that
	// step has run, which is the last one: read it in a closing step behind StepPhase. It stays zero for a paused Machine.
	Phase phases.Decision
	// Now is the time of the pass.
	Now time.Time

	update       contract.MachineUpdate
	stored       []metav1.Condition // as read
	storedID     string             // the provider ID as read
	asserted     []metav1.Condition // of this pass, in order of first assertion
	told         []event            // of this pass
	urgent       bool               // something in status must be written in this pass
	failures     []stepFailure      // of steps of the embedder, while the Machine is not being deleted
	recordsFirst bool               // all of this pass must be stored before a later pass acts on the Node
	lost         string             // what the API server did not store of the last pass
	answer       contract.Object    // the answer to the last write of this pass
	demanded     bool               // a step of the embedder requires that all of it is written in this pass
	recorded     bool               // events about drain and volumes were recorded in an earlier pass
	paused       bool               // the Machine is paused, or that is unknown
	// notDrained and notDeleted record why the Node of a Machine in deletion is left as it is.
	notDrained, notDeleted leftNode
	waiting                *drain.Counts // what the drain of this pass waits for; nil when it did not drain
	// measure and measureErr are the result of RolloutOf in this pass; both nil before the call.
	measure    *Rollout
	measureErr error
	failed     bool    // a step returned an error
	written    bool    // this pass wrote the Machine
	before     phaseAt // as read
	stores     bool    // this pass has written the status
	matchTold  bool    // the event of the Node of this pass is recorded
	// infrastructureGone: the API server confirmed that the infrastructure object is gone.
	infrastructureGone bool
	// nodesBehind: the recorded Node exists, and the index does not have it yet.
	nodesBehind bool
	// generation is the observed generation of the status, zero when it has none.
	generation int64
	matched    *corev1.Node         // the Node that this package's rules have found
	cluster    types.NamespacedName // of the Node; zero for that of Ports.Nodes
	base       patch.Base
	due        *dueStatus // what was found to differ from the stored status; nil without a difference
	env        *Reconciler
	observer   *observer // nil without Options.Metrics
}

// ObjectAs returns the Machine of a pass as the embedder's own type, and false when it has another type. It is a view that must not be
// changed.
func ObjectAs[T contract.Object](s *Scope) (T, bool) {
	obj, ok := s.Object.(T)
	return obj, ok
}

// Paused reports whether the Machine is paused, or whether that cannot be known. Closing steps run nevertheless.
func (s *Scope) Paused() bool { return s.paused }

// Pause makes the rest of the pass treat the Machine as paused, and returns a Result that stops it. It sets the condition Paused: with
// status True when a person or the Cluster requests the pause, which ends the drain of a Machine in deletion, or Unknown when that cannot
// be known. With an empty status it does not set the condition. Call it from a step that replaces StepPaused, which asserts Paused as
// False otherwise.
func (s *Scope) Pause(status metav1.ConditionStatus, reason, message string) Result {
	s.paused = true
	if status != "" {
		s.Assert(condition(ConditionPaused, status, reason, message))
	}
	if status == metav1.ConditionTrue && !s.State.Deleting.IsZero() {
		s.releaseNode()
	}
	return Result{Stop: true}
}

// Assert sets a condition of the Machine, with its message cut to 8 KiB. Its observed generation is set when it is written, and its
// transition time too unless it has one; that one counts only when the status differs from the stored one. An unchanged condition is not
// written.
func (s *Scope) Assert(c metav1.Condition) {
	c.Message = bounded(c.Message, maxMessageLength)
	at := slices.IndexFunc(s.asserted, func(have metav1.Condition) bool { return have.Type == c.Type })
	if at < 0 {
		s.asserted = append(s.asserted, c)
		return
	}
	s.asserted[at] = c
}

// Condition returns a condition as this pass asserted it, or else as it was read.
func (s *Scope) Condition(kind string) (metav1.Condition, bool) {
	if c, found := findCondition(s.asserted, kind); found {
		return c, true
	}
	return findCondition(s.stored, kind)
}

// IsTrue reports whether a condition is True, as this pass asserted it or else as it was read.
func (s *Scope) IsTrue(kind string) bool {
	c, _ := s.Condition(kind)
	return c.Status == metav1.ConditionTrue
}

// Wait sets the stage of a deletion, as the reason and message of Deleting, and returns a Result that stops the pass. It requests no other
// pass: set RequeueAfter where no event will follow.
func (s *Scope) Wait(reason, message string) Result {
	s.Assert(condition(ConditionDeleting, metav1.ConditionTrue, reason, message))
	return Result{Stop: true}
}

// SetDataSecretName records the name of the bootstrap data Secret.
func (s *Scope) SetDataSecretName(name string) {
	if have, found := s.State.DataSecretName.Get(); found && have == name {
		return
	}
	s.State.DataSecretName = contract.Some(name)
	s.update.DataSecretName = contract.SetTo(name)
}

// SetProviderID records the provider ID. The stored one is not a change, whatever an earlier step has set.
func (s *Scope) SetProviderID(id string) {
	change(&s.State.ProviderID, id, &s.update.ProviderID)
	if id == s.storedID {
		s.update.ProviderID = contract.Change[string]{}
	}
}

// SetNode records the matched Node.
func (s *Scope) SetNode(ref contract.NodeRef) { change(&s.State.Node, ref, &s.update.Node) }

// SetPhase records the phase.
func (s *Scope) SetPhase(phase string) {
	if s.State.Phase == phase {
		return
	}
	change(&s.State.Phase, phase, &s.update.Phase)
	change(&s.State.LastUpdated, s.Now, &s.update.LastUpdated)
}

// SetFailureDomain records the failure domain of the instance.
func (s *Scope) SetFailureDomain(domain string) {
	change(&s.State.FailureDomain, domain, &s.update.FailureDomain)
}

// SetAddresses records the addresses of the machine.
func (s *Scope) SetAddresses(addresses []contract.Address) {
	if slices.Equal(s.State.Addresses, addresses) {
		return
	}
	s.State.Addresses = slices.Clone(addresses)
	s.update.Addresses = contract.SetTo(s.State.Addresses)
}

// SetBootstrapReady and SetInfrastructureReady record that a stage was reached. They cannot be reset. A kind without a field for the value
// loses it after the pass, so call them in each pass; that causes no write.
func (s *Scope) SetBootstrapReady() { reached(&s.State.BootstrapReady, &s.update.BootstrapReady) }

// SetInfrastructureReady records that the infrastructure was provisioned. Without [StepInfrastructure], a step of your own must call it:
// the phase Running requires it.
func (s *Scope) SetInfrastructureReady() {
	reached(&s.State.InfrastructureReady, &s.update.InfrastructureReady)
}

// SetCertificatesExpire records when the certificates of a control plane Machine expire; the zero time clears it.
func (s *Scope) SetCertificatesExpire(at time.Time) {
	change(&s.State.CertificatesExpire, at, &s.update.CertificatesExpire)
}

// SetFailure records a failure that does not end without a change; empty texts clear it.
func (s *Scope) SetFailure(reason, message string) {
	change(&s.State.FailureReason, reason, &s.update.FailureReason)
	change(&s.State.FailureMessage, message, &s.update.FailureMessage)
}

// SetPreDrainStarted records when the wait for pre-drain hooks began, and writes it in this pass.
func (s *Scope) SetPreDrainStarted(at time.Time) {
	s.began(&s.State.PreDrainStarted, at, &s.update.PreDrainStarted)
}

// SetDrainStarted records when draining began, and writes it in this pass.
func (s *Scope) SetDrainStarted(at time.Time) {
	s.began(&s.State.DrainStarted, at, &s.update.DrainStarted)
}

// SetVolumeDetachStarted records when the wait for volumes began, and writes it in this pass.
func (s *Scope) SetVolumeDetachStarted(at time.Time) {
	s.began(&s.State.VolumeDetachStarted, at, &s.update.VolumeDetachStarted)
}

// SetPreTerminateStarted records when the wait for pre-terminate hooks began, and writes it in this pass.
func (s *Scope) SetPreTerminateStarted(at time.Time) {
	s.began(&s.State.PreTerminateStarted, at, &s.update.PreTerminateStarted)
}

// began records the start of a stage. Its limit counts from there, so it is written before the stage continues. Objects store whole
// seconds.
func (s *Scope) began(have *time.Time, at time.Time, into *contract.Change[time.Time]) {
	change(have, at.Truncate(time.Second), into)
	s.urgent = true
}

// SetDrained records that the Node with this UID was drained.
func (s *Scope) SetDrained(node types.UID) { change(&s.State.DrainedNode, node, &s.update.DrainedNode) }

// SetVolumesDetached records that the deletion no longer waits for the volumes of the Node with this UID. In a pass that also calls
// SetDrained both are one write.
func (s *Scope) SetVolumesDetached(node types.UID) {
	change(&s.State.VolumesDetachedNode, node, &s.update.VolumesDetachedNode)
}

// SetFinalizers replaces the finalizers.
func (s *Scope) SetFinalizers(names []string) {
	if slices.Equal(s.State.Finalizers, names) {
		return
	}
	s.State.Finalizers = names
	s.update.Finalizers = contract.SetTo(names)
}

// SetOwnerReferences replaces the owner references, which the Scope keeps. The write only applies to the version that was read, so that an
// owner which was added meanwhile is not lost.
func (s *Scope) SetOwnerReferences(owners []metav1.OwnerReference) {
	if contract.SameOwners(s.State.OwnerReferences, owners) {
		return
	}
	s.State.OwnerReferences = owners
	s.update.OwnerReferences = contract.SetTo(owners)
}

// SetLabel sets a label of the Machine.
func (s *Scope) SetLabel(key, value string) {
	if have, found := s.State.Labels[key]; found && have == value {
		return
	}
	labels := map[string]string{key: value}
	for k, v := range s.State.Labels {
		if k != key {
			labels[k] = v
		}
	}
	s.State.Labels = labels
	if s.update.Labels == nil {
		s.update.Labels = map[string]contract.Change[string]{}
	}
	s.update.Labels[key] = contract.SetTo(value)
}

func change[T comparable](have *T, want T, into *contract.Change[T]) {
	if *have == want {
		return
	}
	*have = want
	*into = contract.SetTo(want)
}

func reached(have *contract.Opt[bool], into *contract.Change[bool]) {
	if have.Or(false) {
		return
	}
	*have = contract.Some(true)
	*into = contract.SetTo(true)
}
