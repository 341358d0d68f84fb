package machineset

import (
	"cmp"
	"context"
	"fmt"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// ReasonControlPlaneUnread is the reason of the hold on a set whose Cluster's control plane could not be read.
const ReasonControlPlaneUnread = "ControlPlaneUnread"

// preflight returns the checks before a creation that failed, none where there is nothing to check.
func (s *Scope) preflight(ctx context.Context) ([]scale.Hold, error) {
	if s.env.preflightOf != nil {
		facts, err := s.env.preflightOf(ctx, &s.State)
		if err != nil {
			return nil, err
		}
		return failedChecks(facts), nil
	}
	ref := s.Cluster.State.ControlPlane
	if s.Cluster.Presence != external.Present || ref.IsZero() {
		return nil, nil
	}
	plane, err := s.env.frame.Tracker.Get(ctx, s.State.Key, ref)
	if err != nil {
		return nil, err
	}
	unread := func(message string) []scale.Hold {
		return []scale.Hold{{Reason: ReasonControlPlaneUnread, Message: message}}
	}
	if plane.Presence != external.Present {
		return unread(cmp.Or(plane.Problem.Message, fmt.Sprintf("%s %s could not be read, or does not exist", ref.Kind, ref.Name))), nil
	}
	var state contract.ControlPlaneState
	if err := contract.ControlPlane(plane.Contract).Read(plane.Object, &state); err != nil {
		return nil, err
	}
	if state.Unreadable != nil { // it has to be corrected
		return unread(fmt.Sprintf("%s %s: %v", ref.Kind, ref.Name, state.Unreadable)), nil
	}
	return failedChecks(s.preflightFacts(state)), nil
}

// failedChecks are the checks that fail. A version that cannot be read has to be corrected.
func failedChecks(facts scale.PreflightFacts) []scale.Hold {
	failed, err := scale.Preflight(facts)
	if err != nil {
		return []scale.Hold{{Reason: ReasonPreflightFailed, Message: "preflight checks could not be made: " + err.Error()}}
	}
	return failed
}

// kubeadm is the group and the kind of kubeadm's bootstrap templates.
const (
	kubeadmGroup    = "bootstrap.cluster.x-k8s.io"
	kubeadmTemplate = "KubeadmConfigTemplate"
)

// preflightFacts ignores the version of a topology; with topologies, set Ports.PreflightOf.
func (s *Scope) preflightFacts(plane contract.ControlPlaneState) scale.PreflightFacts {
	skip, found := s.State.Annotations[scale.SkipPreflightAnnotation]
	if !found && s.templates.bootstrap.Object != nil {
		skip = s.templates.bootstrap.Object.GetAnnotations()[scale.SkipPreflightAnnotation]
	}
	bootstrap := s.State.Template.Bootstrap
	return scale.PreflightFacts{
		HasControlPlane: plane.DesiredVersion != "", DesiredVersion: plane.DesiredVersion, CurrentVersion: plane.CurrentVersion,
		Version: s.State.Template.Version, Kubeadm: bootstrap.Group == kubeadmGroup && bootstrap.Kind == kubeadmTemplate, Skip: skip,
	}
}
