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

// Scope is one pass over one Machine: what was read, what was decided so far, and the means to act. It belongs to the
// worker that runs the pass.
type Scope struct {
	// Object is the Machine as it was read. It may be shared with a cache and must not be changed.
	Object contract.Object
	// State is what the Machine says, kept up to date with what this pass has decided.
	State contract.MachineState
	// Bootstrap and Infrastructure are what this pass knows of the referenced objects.
	Bootstrap, Infrastructure external.Object
	// Node is what this pass knows of the Machine's Node; NodesSynced is false while the Nodes could not be read.
	Node        noderef.Match
	NodesSynced bool
	// Workload is how the Machine's cluster is reached. Writes on Nodes go through its Client. NodesErr says why that cannot be
	// used now; it is nil while nothing but the first list of Nodes is missing.
	Workload Workload
	NodesErr error
	// Cluster is what Ports.ClusterOf says of the Machine's Cluster, and ClusterErr why it could not say anything. Both are zero
	// where Machines have no Clusters; then nothing is waited for and nothing is paused on their account.
	Cluster    external.ClusterView
	ClusterErr error
	// Care is what this pass decided to do about the Node of a Machine in deletion, and CareReason why, for people; CareUnknown
	// before it decided. A step that sets it decides in place of Policy.NodeCare.
	Care       NodeCare
	CareReason string
	// InstanceGone and PoweredOff are for steps that ask a provider about the machine itself: that it no longer exists, and that
	// it is off. A machine that no longer exists has its Node neither drained nor its volumes waited for; of one that is off volumes are
	// not waited for, and its pods are Policy.DrainPolicy's. What an unreachable cluster holds up may be left out, see Policy.Unreachable.
	InstanceGone, PoweredOff bool
	// Blockers are the pods that the drain waits for in this pass; nil while it does not drain. Shared, not to be changed.
	Blockers []drain.Blocker
	// Phase is what the phase step has decided in this pass: the phase, why it holds, and what is waited for. It is zero until that
	// step has run, which is the last one: look at it in a closing step behind StepPhase. It stays zero for a paused Machine.
	Phase phases.Decision
	// Now is the time of the pass.
	Now time.Time

	update       contract.MachineUpdate
	stored       []metav1.Condition // as read
	storedID     string             // the provider ID as read
	asserted     []metav1.Condition // of this pass, in order of first assertion
	told         []event            // of this pass
	urgent       bool               // something in status must be written in this pass
	failures     []stepFailure      // of steps of the embedder, while the Machine lives
	recordsFirst bool               // all of this pass has to be stored before anything is done to the Node
	lost         string             // what the API server did not keep of the last pass
	answer       contract.Object    // what it answered to the last write of this pass
	demanded     bool               // a step of the embedder demands that all of it is written in this pass
	recorded     bool               // events about drain and volumes were recorded in an earlier pass
	paused       bool               // the Machine is to be left alone
	// notDrained and notDeleted say of a Machine in deletion why its Node is left as it is.
	notDrained, notDeleted leftNode
	waiting                *drain.Counts // what the drain of this pass waits for; nil when it did not drain
	// measure and measureErr are what RolloutOf said in this pass; both nil before it was asked.
	measure    *Rollout
	measureErr error
	failed     bool    // a step returned an error
	written    bool    // this pass wrote the Machine
	before     phaseAt // as read
	stores     bool    // this pass has written the status
	matchTold  bool    // the event of the Node of this pass is recorded
	// infrastructureGone: the API server itself said so of the infrastructure object.
	infrastructureGone bool
	// nodesBehind: the recorded Node exists, and the index does not have it yet.
	nodesBehind bool
	// generation is what the status says it was made of, zero when it cannot say.
	generation int64
	matched    *corev1.Node         // the Node that this package's rules have found
	cluster    types.NamespacedName // of the Node; zero for that of Ports.Nodes
	base       patch.Base
	due        *dueStatus // what was found to differ from the stored status; nil while nothing was
	env        *Reconciler
	observer   *observer // nil where nobody wants to know
}

// ObjectAs returns the Machine of a pass as the embedder's own type, and false when it is another. It is a view that must not
// be changed.
func ObjectAs[T contract.Object](s *Scope) (T, bool) {
	obj, ok := s.Object.(T)
	return obj, ok
}

// Paused reports whether somebody asked to leave the Machine alone, or that cannot be known. Closing steps run all the same.
func (s *Scope) Paused() bool { return s.paused }

// Pause has the rest of the pass leave the Machine alone, and returns a Result that stops it. It says why in the condition Paused: with
// status True because a person or the Cluster asked for it, which ends the drain of a Machine in deletion, or Unknown because that cannot be known. With
// an empty status nothing is said. It is for a step in place of StepPaused, which asserts Paused as False otherwise.
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

// Assert sets a condition of the Machine, with its message cut to 8 KiB. Its observed generation is filled in when it is
// written, and its transition time too unless it brings one along; that one counts only when the status is another than
// before. A condition that says what it said before is not written at all.
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

// Wait asserts the stage that a deletion is in, as the reason and message of Deleting, and returns a Result that stops the pass.
// It asks for no other pass: set RequeueAfter where no event will come.
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

// SetProviderID records the provider ID. One that is stored already is no change, whatever another step has set before.
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

// SetFailureDomain records where the machine really is.
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

// SetBootstrapReady and SetInfrastructureReady record that a stage was reached. They are sticky: there is no way back. A type that
// keeps no such value forgets it after the pass, so it is to be called in each; that writes nothing.
func (s *Scope) SetBootstrapReady() { reached(&s.State.BootstrapReady, &s.update.BootstrapReady) }

// SetInfrastructureReady records that the infrastructure was provisioned. Without [StepInfrastructure] nobody else does, and the
// phase Running asks for it.
func (s *Scope) SetInfrastructureReady() {
	reached(&s.State.InfrastructureReady, &s.update.InfrastructureReady)
}

// SetCertificatesExpire records when the certificates of a control plane machine end; the zero time clears it.
func (s *Scope) SetCertificatesExpire(at time.Time) {
	change(&s.State.CertificatesExpire, at, &s.update.CertificatesExpire)
}

// SetFailure records a failure that does not go away by itself; empty texts clear it.
func (s *Scope) SetFailure(reason, message string) {
	change(&s.State.FailureReason, reason, &s.update.FailureReason)
	change(&s.State.FailureMessage, message, &s.update.FailureMessage)
}

// SetPreDrainStarted records when pre-drain hooks began to be waited for, and has it written in this pass.
func (s *Scope) SetPreDrainStarted(at time.Time) {
	s.began(&s.State.PreDrainStarted, at, &s.update.PreDrainStarted)
}

// SetDrainStarted records when draining began and has it written in this pass.
func (s *Scope) SetDrainStarted(at time.Time) {
	s.began(&s.State.DrainStarted, at, &s.update.DrainStarted)
}

// SetVolumeDetachStarted records when volumes began to be waited for, and has it written in this pass.
func (s *Scope) SetVolumeDetachStarted(at time.Time) {
	s.began(&s.State.VolumeDetachStarted, at, &s.update.VolumeDetachStarted)
}

// SetPreTerminateStarted records when pre-terminate hooks began to be waited for, and has it written in this pass.
func (s *Scope) SetPreTerminateStarted(at time.Time) {
	s.began(&s.State.PreTerminateStarted, at, &s.update.PreTerminateStarted)
}

// began records the start of a stage. Its limit counts from there, so it is written before the stage goes on. Objects hold
// whole seconds.
func (s *Scope) began(have *time.Time, at time.Time, into *contract.Change[time.Time]) {
	change(have, at.Truncate(time.Second), into)
	s.urgent = true
}

// SetDrained records that the Node with this UID was drained.
func (s *Scope) SetDrained(node types.UID) { change(&s.State.DrainedNode, node, &s.update.DrainedNode) }

// SetVolumesDetached records that nothing has to wait any more for the volumes of the Node with this UID. In a pass that also
// calls SetDrained both are one write.
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

// SetOwnerReferences replaces the owner references, which the Scope keeps. The write only applies to the Machine that was read, so
// that no owner whom somebody else added meanwhile is lost.
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
