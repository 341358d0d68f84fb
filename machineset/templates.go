package machineset

import (
	"context"
	"errors"
	"slices"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
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

// missing are the kinds of the templates that do not exist, and blocked is what else keeps the set from creating. Where the set lacks no
// Machine, that it is not to create is worth no word, nor is what could not be read: each new process begins with that.
func (s *Scope) missing() (missing, blocked []string) {
	for _, t := range []external.Object{s.templates.bootstrap, s.templates.infrastructure} {
		if t.Presence == external.Absent {
			missing = append(missing, t.Ref.Kind)
		}
	}
	enough := len(s.machines.Own) >= int(s.State.Replicas.Or(0))
	small := []string{ReasonCreationDisabled, engine.ReasonTemplateUnread, ReasonControlPlaneUnread, ReasonPreflightFailed}
	return missing, blockedBy(slices.DeleteFunc(slices.Clone(s.machines.Holds), func(h scale.Hold) bool {
		return h.Reason == engine.ReasonTemplateMissing || enough && slices.Contains(small, h.Reason)
	}))
}
