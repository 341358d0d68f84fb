package machine

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
)

// flush writes the decisions of the pass, delays a status that is only intermediate, and records events after the write that they are
// about.
func flush(ctx context.Context, s *Scope, err error) error {
	again, err := s.flushed(ctx, err)
	s.Requeue(again)
	return err
}

// flushed returns when a delayed status is due.
func (s *Scope) flushed(ctx context.Context, err error) (time.Duration, error) {
	s.failed = err != nil
	s.forgetDeletion()
	before, pending := s.env.memory.telling(s.State.Key), s.env.memory.settling(s.State.Key)
	again, err := s.write(ctx)
	if err != nil && s.env.memory.settling(s.State.Key) == (pass.Settling{}) {
		s.env.memory.setSettling(s.State.Key, pending) // what was due and could not be written is still due
	}
	s.observer.wrote(s, err)
	if err == nil {
		err = s.checkKept()
	}
	next, now := before.tells(s.told, err == nil && (again == 0 || s.Written()))
	s.env.memory.setTelling(s.State.Key, next)
	s.Record(now...)
	return again, err
}

// observes reports whether this pass has evaluated the whole Machine: a pass that failed or found the Machine paused has not. Each
// condition still has its own observed generation. Rule: Cluster API's Machine controller.
func (s *Scope) observes() bool { return !s.failed && !s.Paused() }

// write returns when a delayed status is due.
func (s *Scope) write(ctx context.Context) (again time.Duration, err error) {
	err = s.Flush(ctx, pass.Writing[contract.MachineUpdate]{
		Observes: s.observes(),
		Urgent:   s.urgent,
		Settle: func(changed bool, main, status contract.MachineUpdate) (write bool, err error) {
			write, again, err = s.settleStatus(changed, main, status)
			return write, err
		},
		Wrote: s.wrote,
	})
	if err == nil && s.IsGone() {
		return 0, nil
	}
	return again, err
}

// wrote records the events of one write.
func (s *Scope) wrote(u contract.MachineUpdate, main, status bool) {
	var events []pass.Event
	if status {
		s.stores = true
		events = pass.ConditionEvents(s.Stored, u.Conditions, problems(s.Deleting()))
	}
	switch {
	case main && !status:
		events = append(s.drained(u), s.nodeRecorded(u)...)
		s.mainTold = true
	case main:
		events = slices.Concat(events, matchEvents(u), s.drained(u))
	default:
		if !s.matchTold {
			events = append(events, matchEvents(u)...)
		}
		if !s.mainTold { // otherwise the write of the metadata has recorded the events
			events = append(events, s.drained(u)...)
		}
	}
	s.Record(events...)
}

// settleStatus decides whether the status is written in this pass.
func (s *Scope) settleStatus(dirty bool, main, status contract.MachineUpdate) (bool, time.Duration, error) {
	forced, err := s.forcesStatus(status)
	if err != nil {
		return false, 0, err
	}
	ready, _ := pass.Find(s.Asserted, contract.ConditionReady)
	nodeReady, _ := pass.Find(s.Asserted, contract.ConditionNodeReady)
	write, again, pending := pass.Settle(pass.SettleFacts{
		Dirty:       dirty,
		Urgent:      forced,
		Final:       ready.Status == metav1.ConditionTrue && main.ProviderID.Keeps() && main.DataSecretName.Keeps(),
		Expecting:   (!status.Node.Keeps() && nodeReady.Status != metav1.ConditionTrue) || s.drainEnds(),
		Pending:     s.env.memory.settling(s.State.Key),
		Fingerprint: pass.Fingerprint(s.State.Phase, s.Asserted),
		Now:         s.Now,
		Delay:       pass.Patience(s.env.options.StatusDelay, s.env.backlog()),
	})
	s.env.memory.setSettling(s.State.Key, pending)
	return write, again, nil
}

// backlog estimates how long it takes to write all waiting statuses, one after the other.
func (r *Reconciler) backlog() time.Duration {
	return time.Duration(r.memory.waiting()) * r.frame.Writer.Pace()
}

// drainEnds reports whether a drain has no pod left to wait for, and only confirms that no new pod was scheduled.
func (s *Scope) drainEnds() bool {
	return s.waiting != nil && s.waiting.Total == s.waiting.Ignored
}

// forcesStatus reports whether values that a step needs stored are in the status. Many are in annotations, and written with the metadata:
// then the status can wait.
func (s *Scope) forcesStatus(u contract.MachineUpdate) (bool, error) {
	if s.Demanded() {
		return true, nil
	}
	if s.urgent && (len(s.told) > 0 || !s.Update.Finalizers.Keeps()) {
		return true, nil // recorded events, and the end of the deletion, are in the conditions
	}
	needed := s.env.frame.Members.Needed(u, s.urgent)
	if s.env.frame.Members.Empty(&needed) {
		return s.urgent, nil // the conditions have the required value
	}
	return s.WouldChangeStatus(needed)
}
