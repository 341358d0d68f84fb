package engine

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/patch"
)

// undoneGrace is how long after the next attempt an object counts as contested: until then another writer can undo that too.
const undoneGrace = 10 * time.Second

// writes are when the status of an object was written last, what other writers undo of the writes of its passes, until when, and what the
// API server did not store of the last one.
type writes struct {
	status  time.Time
	undone  string
	until   time.Time
	notKept string
}

// Undone returns the error of a write that other writers have undone too often, nil without one.
func Undone(err error) *patch.UndoneError {
	undone, _ := errors.AsType[*patch.UndoneError](err)
	return undone
}

// remember keeps what others undo, and requests the next attempt.
func (s *Scope[S, U]) remember(err error) {
	undone := Undone(err)
	if undone == nil {
		return
	}
	mine := s.writes()
	mine.undone, mine.until = undone.Error(), s.Now.Add(undone.After+undoneGrace)
	s.Requeue(undone.After)
	s.frame.Options.Metrics.contested()
}

// contest sets the condition Contested from the error of this pass, and from those of the passes before it, whose grace is not over.
func (s *Scope[S, U]) contest(err error) {
	s.remember(err)
	have := s.writes()
	switch {
	case s.Now.Before(have.until):
		s.Assert(Condition(contract.ConditionContested, metav1.ConditionTrue, contract.ReasonWritesUndone, have.undone))
		s.Requeue(have.until.Sub(s.Now))
	case HasStatus(s.Stored, contract.ConditionContested, metav1.ConditionTrue):
		s.Assert(Condition(contract.ConditionContested, metav1.ConditionFalse, contract.ReasonNotContested, ""))
	}
}

// writeContest writes the condition Contested alone when the metadata was put off, because the status may depend on it. It returns the
// error about the metadata.
func (s *Scope[S, U]) writeContest(ctx context.Context, w Writing, err error) error {
	undone := Undone(err)
	if undone == nil {
		return err
	}
	var none U
	s.Update, s.Asserted = none, nil
	s.Assert(Condition(contract.ConditionContested, metav1.ConditionTrue, contract.ReasonWritesUndone, undone.Error()))
	decided, failed := s.decided(s.Object, s.Asserted, false)
	if w.Silent || failed != nil || !s.isDue() {
		return err
	}
	return errors.Join(err, s.writeStatus(ctx, s.Object, decided.Status(), w))
}
