package machineset

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Reasons of holds, which prevent a set from creating for now.
const (
	ReasonCreationDisabled = "CreationDisabled"              // an annotation of the set disables creation
	ReasonSelectorMismatch = children.ReasonSelectorMismatch // the selector does not select the labels of the template
	ReasonNaming           = children.ReasonNaming           // spec.machineNaming renders no valid name, or no free one
	ReasonPreflightFailed  = "PreflightFailed"               // a check before the creation failed, such as that of the control plane
	// ReasonSelectorUnreadable: spec.selector is invalid, so no Machine is adopted or released either.
	ReasonSelectorUnreadable = children.ReasonSelectorUnreadable
	// ReasonDeletionOrderUnreadable: spec.deletion.order is invalid. It only prevents a set from deleting.
	ReasonDeletionOrderUnreadable = "DeletionOrderUnreadable"

	// The following are reasons of the condition ScalingUp too.

	// ReasonMachinesNotShown: the API server has Machines of the set that are missing in the cache.
	ReasonMachinesNotShown = "MachinesNotShown"
	// ReasonMachinesNotRestored: the set had Machines before it was restored, and they do not exist.
	ReasonMachinesNotRestored = "MachinesNotRestored"
)

// preflightRetry is the delay before preflight checks are repeated. Rule: Cluster API's preflightFailedRequeueAfter.
const preflightRetry = 15 * time.Second

// ReasonControlPlaneUnread is the reason of the hold on a set whose Cluster's control plane could not be read.
const ReasonControlPlaneUnread = "ControlPlaneUnread"

// preflight holds the set when a preflight check fails, or cannot be made until something is corrected.
func (s *Scope) preflight(ctx context.Context) error {
	ref, facts := s.Cluster.State.ControlPlane, s.preflightFacts()
	if s.Cluster.Presence != external.Present || ref.IsZero() || facts.Skips(scale.CheckAll) {
		return nil
	}
	var state contract.ControlPlaneState
	plane, err := s.env.frame.Tracker.Get(ctx, s.State.Key, ref)
	if err == nil && plane.Presence == external.Present {
		err = contract.LayoutsOf(plane.Contract).ControlPlane.Read(plane.Object, &state)
	}
	switch {
	case err != nil:
		return err
	case plane.Presence != external.Present:
		unread := fmt.Sprintf("%s %s could not be read, or does not exist", ref.Kind, ref.Name)
		s.Hold(ReasonControlPlaneUnread, cmp.Or(plane.Problem.Message, unread))
		return nil
	case state.Unreadable != nil:
		s.Hold(ReasonControlPlaneUnread, fmt.Sprintf("%s %s: %v", ref.Kind, ref.Name, state.Unreadable))
		return nil //nolint:nilerr // the hold reports it, and it has to be corrected
	}
	facts.DesiredVersion, facts.CurrentVersion = state.DesiredVersion, state.CurrentVersion
	s.check(facts)
	return nil
}

// check holds the set when a check fails or a version cannot be parsed.
func (s *Scope) check(facts scale.PreflightFacts) {
	failed, err := scale.Preflight(facts)
	if err != nil {
		s.Hold(ReasonPreflightFailed, "preflight checks could not be made: "+err.Error())
	}
	s.machines.Holds = append(s.machines.Holds, failed...)
}

// preflightFacts returns the inputs of the checks, without those of the control plane.
func (s *Scope) preflightFacts() scale.PreflightFacts {
	skip, found := s.State.Annotations[scale.SkipPreflightAnnotation]
	if template := s.templates[0].Object; !found && template != nil {
		skip = template.GetAnnotations()[scale.SkipPreflightAnnotation]
	}
	bootstrap := s.State.Template.Bootstrap
	return scale.PreflightFacts{
		Version: s.State.Template.Version, Skip: skip,
		Kubeadm: bootstrap.Group == "bootstrap.cluster.x-k8s.io" && bootstrap.Kind == "KubeadmConfigTemplate",
	}
}

// holdsStep adds the other holds. A check that cannot be made is one too.
func holdsStep(ctx context.Context, s *Scope) (Result, error) {
	if s.State.Annotations[scale.DisableCreateAnnotation] == "true" {
		s.Hold(ReasonCreationDisabled, fmt.Sprintf("annotation %s is true", scale.DisableCreateAnnotation))
	}
	if scale.FreezingOf(s.env.kinds.Set.GVK.Group, &s.State.Metadata, s.State.Conditions) != scale.NotFrozen {
		s.Hold(scale.ReasonFrozen, "the set is frozen: annotation "+scale.UnfreezeAnnotation+" ends that where it does not end by itself")
	}
	s.machines.CheckSelector(machineLabels(&s.State))
	if _, err := s.naming(); err != nil {
		s.Hold(ReasonNaming, err.Error())
	}
	before := len(s.machines.Holds)
	if err := s.preflight(ctx); err != nil {
		s.Hold(ReasonPreflightFailed, "preflight checks could not be made: "+engine.SeeLogs)
		return Result{}, fmt.Errorf("preflight checks: %w", err)
	}
	if len(s.machines.Holds) > before {
		return Result{RequeueAfter: preflightRetry}, nil
	}
	return Result{}, nil
}
