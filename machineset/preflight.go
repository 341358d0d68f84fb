package machineset

import (
	"context"
	"fmt"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// ReasonControlPlaneUnread is the reason of the hold on a set whose Cluster's control plane could not be read.
const ReasonControlPlaneUnread = "ControlPlaneUnread"

// preflight returns what the checks before a creation look at, false when there is nothing to check or it holds the set already.
func (s *Scope) preflight(ctx context.Context) (facts scale.PreflightFacts, known bool, err error) {
	if ask := s.env.ports.PreflightOf; ask != nil {
		facts, err = ask(ctx, &s.state)
		return facts, err == nil, err
	}
	ref := s.cluster.State.ControlPlane
	if s.cluster.Presence != external.Present || ref.IsZero() {
		return facts, false, nil
	}
	plane, err := s.env.tracker.Get(ctx, s.state.Key, ref)
	if err != nil {
		return facts, false, err
	}
	if plane.Presence != external.Present {
		message := plane.Problem.Message
		if message == "" {
			message = fmt.Sprintf("%s %s could not be read, or does not exist", ref.Kind, ref.Name)
		}
		s.hold(ReasonControlPlaneUnread, message)
		s.requeue(preflightRetry)
		return facts, false, nil
	}
	var state contract.ControlPlaneState
	if err := contract.ControlPlane(plane.Contract).Read(plane.Object, &state); err != nil {
		return facts, false, err
	}
	if state.Unreadable != nil { // it has to be corrected
		s.hold(ReasonControlPlaneUnread, fmt.Sprintf("%s %s: %v", ref.Kind, ref.Name, state.Unreadable))
		s.requeue(preflightRetry)
		return facts, false, nil //nolint:nilerr // the condition tells
	}
	return s.preflightFacts(state), true, nil
}

// kubeadm is the group and the kind of kubeadm's bootstrap templates.
const (
	kubeadmGroup    = "bootstrap.cluster.x-k8s.io"
	kubeadmTemplate = "KubeadmConfigTemplate"
)

// preflightFacts ignores the version of a topology; with topologies, set Ports.PreflightOf.
func (s *Scope) preflightFacts(plane contract.ControlPlaneState) scale.PreflightFacts {
	skip, found := s.state.Annotations[scale.SkipPreflightAnnotation]
	if !found && s.templates.bootstrap.Object != nil {
		skip = s.templates.bootstrap.Object.GetAnnotations()[scale.SkipPreflightAnnotation]
	}
	bootstrap := s.state.Template.Bootstrap
	return scale.PreflightFacts{
		HasControlPlane: plane.DesiredVersion != "", DesiredVersion: plane.DesiredVersion, CurrentVersion: plane.CurrentVersion,
		Version: s.state.Template.Version, Kubeadm: bootstrap.Group == kubeadmGroup && bootstrap.Kind == kubeadmTemplate, Skip: skip,
	}
}
