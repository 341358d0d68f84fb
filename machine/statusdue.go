package machine

import (
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/patch"
)

// settleStatus decides whether the status is written in this pass.
func (s *Scope) settleStatus(status, main contract.MachineUpdate) (bool, time.Duration, error) {
	dirty := s.statusDirty(status)
	if dirty {
		var err error
		if dirty, err = s.changes(status); err != nil {
			return false, 0, err
		}
	}
	forced, err := s.forcesStatus(status)
	if err != nil {
		return false, 0, err
	}
	ready, _ := findCondition(s.asserted, ConditionReady)
	nodeReady, _ := findCondition(s.asserted, ConditionNodeReady)
	write, again, pending := settle(settleFacts{
		Dirty:       dirty,
		Urgent:      forced,
		Final:       ready.Status == metav1.ConditionTrue && main.ProviderID.Keeps() && main.DataSecretName.Keeps(),
		Expecting:   (!status.Node.Keeps() && nodeReady.Status != metav1.ConditionTrue) || s.drainEnds(),
		Pending:     s.env.memory.settling(s.State.Key),
		Fingerprint: fingerprint(s.State.Phase, s.asserted),
		Now:         s.Now,
		Delay:       patience(s.env.options.StatusDelay, s.env.backlog()),
	})
	s.env.memory.setSettling(s.State.Key, pending)
	return write, again, nil
}

// drainEnds reports whether a drain has no pod left to wait for, and only confirms that no new pod was scheduled.
func (s *Scope) drainEnds() bool {
	return s.waiting != nil && s.waiting.Total == s.waiting.Ignored
}

// forcesStatus reports whether values that a step needs stored are in the status. Many are in annotations, and written with the metadata:
// then the status can wait.
func (s *Scope) forcesStatus(u contract.MachineUpdate) (bool, error) {
	if s.demanded {
		return true, nil
	}
	if s.urgent && (len(s.told) > 0 || !s.update.Finalizers.Keeps()) {
		return true, nil // recorded events, and the end of the deletion, are in the conditions
	}
	needed := contract.MachineUpdate{DrainedNode: u.DrainedNode, VolumesDetachedNode: u.VolumesDetachedNode}
	if s.urgent {
		needed.Node, needed.PreDrainStarted, needed.DrainStarted = u.Node, u.PreDrainStarted, u.DrainStarted
		needed.VolumeDetachStarted, needed.PreTerminateStarted = u.VolumeDetachStarted, u.PreTerminateStarted
	}
	if reflect.DeepEqual(needed, contract.MachineUpdate{}) {
		return s.urgent, nil // the conditions have the required value
	}
	contents, err := patch.ApplyOn(s.env.kind, &s.base, s.Object, needed)
	if err != nil {
		return false, err
	}
	return !contents.Status().Empty(), nil
}

// statusDirty reports whether the state differs from the one that was read. It is cheap; changes decides finally.
func (s *Scope) statusDirty(u contract.MachineUpdate) bool {
	return !u.Phase.Keeps() || !u.Node.Keeps() || !u.BootstrapReady.Keeps() || !u.InfrastructureReady.Keeps() ||
		!u.Addresses.Keeps() || !u.FailureDomain.Keeps() || !u.FailureReason.Keeps() || !u.FailureMessage.Keeps() ||
		!u.CertificatesExpire.Keeps() || stageStarted(u) || len(u.RemoveConditions) > 0 ||
		(s.observes() && s.State.ObservedGeneration != s.generation) ||
		len(contract.ChangedConditions(s.stored, s.asserted, s.generation, s.Now)) > 0
}

// hasDecided reports whether the decisions so far would change the object, as it was read. A value that a step sets and a later one resets
// is no change. The condition that a deletion has begun, which each pass sets until a stage replaces it, is none either. Where that cannot
// be known, the write reports why.
func (s *Scope) hasDecided() bool {
	u, asserted := s.update, s.asserted
	if said, _ := findCondition(s.stored, ConditionDeleting); said.Status == metav1.ConditionTrue {
		asserted = slices.DeleteFunc(slices.Clone(asserted), func(c metav1.Condition) bool {
			return c.Type == ConditionDeleting && c.Reason == ReasonDeleting
		})
	}
	u.Conditions = contract.ChangedConditions(s.stored, asserted, s.generation, s.Now)
	contents, err := patch.ApplyOn(s.env.kind, &s.base, s.Object, u)
	return err != nil || !contents.Whole().Empty()
}

// changes reports whether writing an update would change the object. Not every layout stores every member of an update: one without a
// field for the generation, for example, would be dirty for ever.
func (s *Scope) changes(u contract.MachineUpdate) (bool, error) {
	due, err := s.statusOn(s.Object, u)
	if err != nil {
		return false, err
	}
	s.due = due
	return !due.contents.Whole().Empty(), nil
}
