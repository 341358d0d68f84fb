package machineset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
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
	found, err := s.env.frame.Tracker.Get(ctx, s.State.Key, ref)
	if err != nil {
		s.Hold(ReasonTemplateUnread, ref.Kind+" could not be read: "+pass.SeeLogs)
		return found, err
	}
	s.Requeue(found.RetryAfter)
	switch found.Presence {
	case external.NotReferenced:
		return found, nil
	case external.Present:
		return found, s.ownTemplate(ctx, found)
	case external.Absent:
		s.Hold(ReasonTemplateMissing, ref.Kind+" does not exist")
	case external.Unread, external.KindMissing:
		s.Hold(ReasonTemplateUnread, cmp.Or(found.Problem.Message, fmt.Sprintf("%s %s could not be read yet", ref.Kind, ref.Name)))
	}
	return found, nil
}

// ownTemplate makes the Cluster an owner of a template, so that it is deleted and moved with the Cluster. Rule: Cluster API's
// reconcileExternalTemplateReference.
func (s *Scope) ownTemplate(ctx context.Context, found external.Object) error {
	ref, owns := pass.ClusterReference(s.Cluster).Get()
	if !owns || found.Deleting() || s.env.frame.Writer.Behind(found.Object) || !strings.HasSuffix(found.Ref.Kind, contract.TemplateSuffix) {
		return nil
	}
	owners := found.Object.GetOwnerReferences()
	if slices.ContainsFunc(owners, func(have metav1.OwnerReference) bool { return have.UID == ref.UID }) {
		return nil
	}
	if stays, err := s.Cluster.Stays(ctx, s.env.frame.Ports.APIReader); err != nil || !stays {
		return err
	}
	return s.patchMetadata(ctx, "have Cluster own", found, map[string]any{
		"uid": string(found.Object.GetUID()), "resourceVersion": found.Object.GetResourceVersion(),
		"ownerReferences": contract.WithOwner(owners, ref),
	})
}

// missing are the kinds of the templates that do not exist, and blocked is what else keeps the set from creating.
func (s *Scope) missing() (missing, blocked []string) {
	for _, t := range []external.Object{s.templates.bootstrap, s.templates.infrastructure} {
		if t.Presence == external.Absent {
			missing = append(missing, t.Ref.Kind)
		}
	}
	others := slices.Clone(s.machines.Holds)
	return missing, blockedBy(slices.DeleteFunc(others, func(h scale.Hold) bool { return h.Reason == ReasonTemplateMissing }))
}
