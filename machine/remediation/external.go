package remediation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// external reports whether requests are made from a template. Otherwise the owners of Machines remediate them.
func (s *scope) external() bool { return !s.State.Template.IsZero() }

// requestOf returns the kind that is created from the template of a check, or the zero kind.
func requestOf(check *contract.HealthCheckState) schema.GroupVersionKind {
	kind, isTemplate := strings.CutSuffix(check.Template.Kind, contract.TemplateSuffix)
	if !isTemplate || kind == "" || check.TemplateVersion == "" {
		return schema.GroupVersionKind{}
	}
	return schema.GroupVersionKind{Group: check.Template.Group, Version: check.TemplateVersion, Kind: kind}
}

// readRequests reads the template and the requests, in the version of the check. A template that cannot be read blocks the creation of
// requests, and requests that cannot be read end the pass.
func (s *scope) readRequests(ctx context.Context) error {
	kind := requestOf(&s.State)
	s.former = map[types.UID][]*unstructured.Unstructured{}
	for _, former := range s.ledger.Requests {
		if gvk := schema.GroupVersionKind(former); gvk.GroupKind() != kind.GroupKind() {
			if err := s.readFormer(ctx, gvk); err != nil {
				return err
			}
		}
	}
	if !s.external() {
		return nil
	}
	if kind.Empty() {
		s.problem = "the reference needs apiVersion, name, and a kind that ends with " + contract.TemplateSuffix
		return nil
	}
	templates, err := s.list(ctx, kind.GroupVersion().WithKind(s.State.Template.Kind))
	if err != nil || templates == nil {
		return err
	}
	if s.template = templates[s.State.Template.Name]; s.template == nil {
		s.problem = "it does not exist"
	}
	s.requests, err = s.list(ctx, kind)
	return err
}

// readFormer reads the requests of an earlier template of the check from the API server: with a stale cache, two requests could remediate a
// Machine. An event follows when one is gone.
func (s *scope) readFormer(ctx context.Context, kind schema.GroupVersionKind) error {
	if watched, err := s.list(ctx, kind); err != nil || watched == nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := s.env.frame.Ports.APIReader.List(ctx, list, client.InNamespace(s.State.Key.Namespace)); err != nil {
		return fmt.Errorf("list %s objects of an earlier template: %w", kind.Kind, err)
	}
	for i := range list.Items {
		for _, ref := range list.Items[i].GetOwnerReferences() {
			s.former[ref.UID] = append(s.former[ref.UID], &list.Items[i])
		}
	}
	return nil
}

// recordRequests records the kind of requests before the first one is created, and retains the former kinds that still have requests.
func (s *scope) recordRequests() {
	kinds := []schema.GroupVersionKind{requestOf(&s.State)}
	for _, m := range s.members {
		for _, request := range m.former {
			kinds = append(kinds, request.GroupVersionKind())
		}
	}
	s.ledger.Requests = nil
	for _, kind := range kinds {
		if one := metav1.GroupVersionKind(kind); !kind.Empty() && !slices.Contains(s.ledger.Requests, one) {
			s.ledger.Requests = append(s.ledger.Requests, one)
		}
	}
}

// list returns the objects of a kind by name, nil when it is not served.
func (s *scope) list(ctx context.Context, kind schema.GroupVersionKind) (map[string]*unstructured.Unstructured, error) {
	byName, synced, err := s.env.frame.Tracker.List(ctx, kind, s.State.Key.Namespace)
	switch {
	case meta.IsNoMatchError(err):
		s.template, s.problem = nil, kind.String()+" is not served"
		s.Requeue(external.NotServedRetry)
		return nil, nil
	case err == nil && !synced:
		s.Requeue(external.UnsyncedRetry)
		return nil, fmt.Errorf("%w: the first list of %s objects has not come back", engine.ErrStale, kind.Kind)
	}
	return byName, err
}

// request creates the request for a Machine, and returns its condition.
func (s *scope) request(ctx context.Context, m *member) (metav1.Condition, error) {
	condition := func(reason, message string) metav1.Condition {
		return engine.Condition(contract.ConditionExternallyRemediated, metav1.ConditionFalse, reason, message)
	}
	if s.template == nil { // an event of the template follows
		key := types.NamespacedName{Namespace: s.State.Key.Namespace, Name: s.State.Template.Name}
		return condition(ReasonTemplateNotFound, fmt.Sprintf(
			"Error retrieving remediation template %s %s: %s", s.State.Template.Kind, key, s.problem)), nil
	}
	if other := s.requests[m.state.Key.Name]; other != nil {
		return condition(ReasonRequestCreationFailed, fmt.Sprintf(
			"%s %s exists, and does not belong to the Machine: rename or delete it", other.GetKind(), m.state.Key)), nil
	}
	version, kind := s.env.kinds.Machine.GVK.ToAPIVersionAndKind()
	made, err := contract.FromTemplate(s.template, contract.Clone{
		Name: m.state.Key.Name, Namespace: m.state.Key.Namespace, ClusterName: s.State.ClusterName,
		Owner: &metav1.OwnerReference{APIVersion: version, Kind: kind, Name: m.state.Key.Name, UID: m.state.UID},
	})
	if err != nil {
		return condition(ReasonRequestCreationFailed, err.Error()), nil // until the template is corrected, which is an event
	}
	if err := s.env.frame.Ports.Client.Create(ctx, made); err != nil && !apierrors.IsAlreadyExists(err) { // the next pass checks its owner
		return condition(ReasonRequestCreationFailed, engine.SeeLogs), fmt.Errorf("create %s: %w", made.GetKind(), err)
	}
	return condition(ReasonWaitingForRemediation, ""), nil
}

// withdraw deletes requests.
func (s *scope) withdraw(ctx context.Context, requests ...*unstructured.Unstructured) error {
	errs := make([]error, 0, len(requests))
	for _, request := range requests {
		found := external.Object{GVK: request.GroupVersionKind(), Object: request}
		found.Ref.Kind, found.Ref.Name = found.GVK.Kind, request.GetName()
		errs = append(errs, s.DeleteReferenced(ctx, found, &engine.Deletions{}, false))
	}
	return errors.Join(errs...)
}
