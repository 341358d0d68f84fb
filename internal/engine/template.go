package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

// Reasons why nothing can be made from a template.
const (
	ReasonTemplateMissing = "TemplateMissing" // the template does not exist
	ReasonTemplateUnread  = "TemplateUnread"  // the template could not be read
)

// ReadTemplate reads a template from which objects are to be made, and has the Cluster own it. The problem says why nothing can be made
// from it now; the zero Problem means that it can, or that the reference is empty or Frame.Shared. It requests another pass where no
// event follows.
func (s *Scope[S, U]) ReadTemplate(ctx context.Context, ref contract.Ref) (external.Object, external.Problem, error) {
	if shared := s.frame.Shared; shared != nil && shared(ref) {
		return external.Object{}, external.Problem{}, nil
	}
	found, err := s.frame.Tracker.Get(ctx, s.Common().Key, ref)
	if err != nil {
		return found, external.Problem{Reason: ReasonTemplateUnread, Message: ref.Kind + " could not be read: " + SeeLogs}, err
	}
	s.Requeue(found.RetryAfter)
	switch found.Presence {
	case external.NotReferenced:
	case external.Present:
		return found, external.Problem{}, s.ownTemplate(ctx, found)
	case external.Absent:
		return found, external.Problem{Reason: ReasonTemplateMissing, Message: ref.Kind + " does not exist"}, nil
	case external.Unread, external.KindMissing:
		message := cmp.Or(found.Problem.Message, fmt.Sprintf("%s %s could not be read yet", ref.Kind, ref.Name))
		return found, external.Problem{Reason: ReasonTemplateUnread, Message: message}, nil
	}
	return found, external.Problem{}, nil
}

// ownTemplate makes the Cluster an owner of a template, so that it is deleted and moved with the Cluster. Rule: Cluster API's
// reconcileExternalTemplateReference.
func (s *Scope[S, U]) ownTemplate(ctx context.Context, found external.Object) error {
	ref, owns := ClusterReference(s.Cluster).Get()
	if !owns || found.Deleting() || s.frame.Writer.Behind(found.Object) || !strings.HasSuffix(found.Ref.Kind, contract.TemplateSuffix) {
		return nil
	}
	owners := found.Object.GetOwnerReferences()
	if slices.ContainsFunc(owners, func(have metav1.OwnerReference) bool { return have.UID == ref.UID }) {
		return nil
	}
	if stays, err := s.Cluster.Stays(ctx, s.frame.Ports.APIReader); err != nil || !stays {
		return err
	}
	return s.PatchMetadata(ctx, "have Cluster own", found, map[string]any{
		"uid": string(found.Object.GetUID()), "resourceVersion": found.Object.GetResourceVersion(),
		"ownerReferences": contract.WithOwner(owners, ref),
	})
}

// PatchMetadata writes metadata, with the UID that it is meant for, of an object that was read. verb begins the error; an object that is
// gone is no error.
func (s *Scope[S, U]) PatchMetadata(ctx context.Context, verb string, found external.Object, metadata map[string]any) error {
	err := s.frame.Writer.Patch(ctx, named(&unstructured.Unstructured{}, found), map[string]any{"metadata": metadata}, false)
	if err != nil && !external.SaysGone(err) {
		key := types.NamespacedName{Namespace: s.Common().Key.Namespace, Name: found.Ref.Name}
		return fmt.Errorf("%s %s %s: %w", verb, found.Ref.Kind, key, err)
	}
	return nil
}
