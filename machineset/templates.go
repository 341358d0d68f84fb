package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Reasons of holds: why a set creates nothing for now.
const (
	ReasonCreationDisabled = "CreationDisabled"
	ReasonTemplateMissing  = "TemplateMissing"
	ReasonTemplateUnread   = "TemplateUnread"
	ReasonSelectorMismatch = "SelectorDoesNotMatchTemplate"
	ReasonNaming           = "MachineNamingInvalid"
	ReasonPreflightFailed  = "PreflightFailed"
	// ReasonSelectorUnreadable: spec.selector cannot be read, so that no Machine is adopted or let go either.
	ReasonSelectorUnreadable = "SelectorUnreadable"
	// ReasonClaimFailed: a Machine could not be adopted, or could not be let go.
	ReasonClaimFailed = "ClaimFailed"
	// ReasonDeletionOrderUnreadable: spec.deletion.order cannot be read. It keeps a set from deleting only.
	ReasonDeletionOrderUnreadable = "DeletionOrderUnreadable"
)

// preflightRetry is when checks before a creation are made again. Rule: Cluster API's preflightFailedRequeueAfter.
const preflightRetry = 15 * time.Second

// templates are what the objects of new Machines are cloned from.
type templates struct{ bootstrap, infrastructure external.Object }

// observeTemplates looks the templates up that new Machines need. One that does not exist, or was not read, keeps the set from
// creating, and from nothing else.
func (p *pass) observeTemplates(ctx context.Context) error {
	if !p.state.Deleting.IsZero() {
		return nil
	}
	var bootstrap, infrastructure error
	p.templates.bootstrap, bootstrap = p.template(ctx, p.state.Template.Bootstrap)
	p.templates.infrastructure, infrastructure = p.template(ctx, p.state.Template.Infrastructure)
	return errors.Join(bootstrap, infrastructure)
}

func (p *pass) template(ctx context.Context, ref contract.Ref) (external.Object, error) {
	found, err := p.env.tracker.Get(ctx, p.state.Key, ref)
	if err != nil {
		p.hold(ReasonTemplateUnread, ref.Kind+" could not be read: "+seeLogs)
		return found, err
	}
	p.requeue(found.RetryAfter)
	switch found.Presence {
	case external.NotReferenced:
		return found, nil
	case external.Present:
		return found, p.ownTemplate(ctx, found)
	case external.Absent:
		p.hold(ReasonTemplateMissing, ref.Kind+" does not exist")
	case external.Unread, external.KindMissing:
		message := found.Problem.Message
		if message == "" {
			message = fmt.Sprintf("%s %s could not be read yet", ref.Kind, ref.Name)
		}
		p.hold(ReasonTemplateUnread, message)
	}
	return found, nil
}

// ownTemplate has the Cluster own a template, so that it goes, and moves, with the Cluster. Rule: Cluster API's
// reconcileExternalTemplateReference.
func (p *pass) ownTemplate(ctx context.Context, found external.Object) error {
	if !p.clusterStays() || found.Deleting() || p.env.writer.Behind(found.Object) ||
		!strings.HasSuffix(found.Ref.Kind, contract.TemplateSuffix) {
		return nil
	}
	version, kind := p.cluster.GVK.ToAPIVersionAndKind()
	ref := metav1.OwnerReference{APIVersion: version, Kind: kind, Name: p.cluster.State.Key.Name, UID: p.cluster.State.UID}
	owners := found.Object.GetOwnerReferences()
	if slices.ContainsFunc(owners, func(have metav1.OwnerReference) bool { return have.UID == ref.UID }) {
		return nil
	}
	if stays, err := p.cluster.Stays(ctx, p.env.ports.APIReader); err != nil || !stays {
		return err
	}
	written := &unstructured.Unstructured{}
	written.SetGroupVersionKind(found.GVK)
	written.SetNamespace(found.Object.GetNamespace())
	written.SetName(found.Object.GetName())
	body := map[string]any{"metadata": map[string]any{
		"uid": string(found.Object.GetUID()), "resourceVersion": found.Object.GetResourceVersion(), "ownerReferences": contract.WithOwner(owners, ref),
	}}
	if err := p.env.writer.Patch(ctx, written, body, false); err != nil && !external.SaysGone(err) {
		return fmt.Errorf("have Cluster own %s %s: %w", found.Ref.Kind, p.key(found.Ref.Name), err)
	}
	return nil
}

// observeHolds finds out what else keeps the set from creating. What could not be found out does so too.
func (p *pass) observeHolds(ctx context.Context) error {
	if !p.state.Deleting.IsZero() {
		return nil
	}
	if p.state.Annotations[DisableCreateAnnotation] == "true" {
		p.hold(ReasonCreationDisabled, fmt.Sprintf("annotation %s is true", DisableCreateAnnotation))
	}
	if want := machineLabels(&p.state); p.trouble.selector == nil && !p.selector.Matches(labels.Set(want)) {
		p.hold(ReasonSelectorMismatch, fmt.Sprintf("spec.selector %s does not match the labels of spec.template: new Machines would not be the set's own",
			p.selector))
	}
	facts, known, err := p.preflight(ctx)
	if err != nil {
		p.hold(ReasonPreflightFailed, "preflight checks could not be made: "+seeLogs)
		return fmt.Errorf("preflight checks: %w", err)
	}
	if !known {
		return nil
	}
	failed, err := scale.Preflight(facts)
	if err != nil { // the version has to be corrected
		failed = []scale.Hold{{Reason: ReasonPreflightFailed, Message: "preflight checks could not be made: " + err.Error()}}
	}
	if len(failed) > 0 {
		p.holds = append(p.holds, failed...)
		p.requeue(preflightRetry)
	}
	return nil
}

// missing are the kinds of the templates that do not exist, and blocked is what else keeps the set from creating.
func (p *pass) missing() (missing, blocked []string) {
	for _, t := range []external.Object{p.templates.bootstrap, p.templates.infrastructure} {
		if t.Presence == external.Absent {
			missing = append(missing, t.Ref.Kind)
		}
	}
	return missing, blockedBy(slices.DeleteFunc(slices.Clone(p.holds), func(h scale.Hold) bool { return h.Reason == ReasonTemplateMissing }))
}
