package machineset

import (
	"context"
	"errors"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

// templatesStep reads the templates that new Machines need. One that does not exist, or was not read, keeps the set from creating, and
// from nothing else. A set in deletion needs none.
func templatesStep(ctx context.Context, s *Scope) (Result, error) {
	if !s.State.Deleting.IsZero() {
		return Result{}, nil
	}
	var bootstrap, infrastructure error
	s.templates.bootstrap, bootstrap = s.template(ctx, s.State.Template.Bootstrap)
	s.templates.infrastructure, infrastructure = s.template(ctx, s.State.Template.Infrastructure)
	return Result{}, errors.Join(bootstrap, infrastructure)
}

func (s *Scope) template(ctx context.Context, ref contract.Ref) (external.Object, error) {
	found, problem, err := s.ReadTemplate(ctx, ref)
	if problem != (external.Problem{}) {
		s.Hold(problem.Reason, problem.Message)
	}
	return found, err
}
