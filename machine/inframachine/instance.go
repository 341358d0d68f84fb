package inframachine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine/provider"
)

// Reasons of the condition Ready of an InfraMachine, besides those of package internal/instance.
const (
	// ReasonWaitingForMachine: no owner reference is that of an existing Machine, or that Machine references another object.
	ReasonWaitingForMachine = "WaitingForMachine"
	// ReasonWaitingForCluster: the infrastructure of the Cluster is not provisioned. Cluster API's providers use the same reason.
	ReasonWaitingForCluster = "WaitingForClusterInfrastructureReady"
	// ReasonMachineDeleting: the Machine is being deleted, so no instance is created for it.
	ReasonMachineDeleting = "MachineDeleting"
)

// ReasonWaitingForInstanceDeletion is the reason of the condition Deleting while the instance exists.
const ReasonWaitingForInstanceDeletion = "WaitingForInstanceDeletion"

// instanceStep creates or reads the instance, and copies its values. A new provider ID and the resume data are written in this pass,
// because they identify the instance in later passes.
func instanceStep(ctx context.Context, s *Scope) (Result, error) {
	if reason, message := s.waitsFor(); reason != "" {
		s.notReady(reason, message)
		if reason != ReasonMachineDeleting {
			return Result{Stop: true}, nil // an event of the Cluster follows
		}
		found, err := s.look(ctx) // it may have been created just before: the Machine finds its Node by the provider ID
		return Result{Stop: true, RequeueAfter: found.RequeueAfter}, err
	}
	found, err := s.env.keeper.Ensure(ctx, s.input(ctx))
	if !found.Keep {
		s.Assert(found.Condition(contract.ConditionReady))
	}
	if err != nil {
		return Result{}, err
	}
	s.setFailure(found.FailureReason, found.FailureMessage)
	if found.Instance.State != "" || found.Adopt {
		s.setResume(found.Instance.Resume)
	}
	if found.Adopt {
		s.adopt(found)
	}
	if found.Provisioned {
		engine.SetOpt(&s.State.Provisioned, true, &s.Update.Provisioned)
	}
	return Result{RequeueAfter: found.RequeueAfter}, nil
}

// look reads the instance from the Driver in a deletion, and records the provider ID or resume data. It does not clear resume data, because
// another InfraMachine may have nothing else yet (see sharing).
func (s *Scope) look(ctx context.Context) (instance.Outcome, error) {
	found, err := s.env.keeper.Ensure(ctx, s.input(ctx))
	if len(found.Instance.Resume) > 0 {
		s.setResume(found.Instance.Resume)
	}
	if found.Adopt {
		s.adopt(found)
	}
	return found, err
}

// waitsFor returns what must happen before an instance is created, as a reason and a message; empty for nothing. An existing instance waits
// for nothing.
func (s *Scope) waitsFor() (reason, message string) {
	switch {
	case s.State.ProviderID != "":
		return "", ""
	case !s.Machine.Deleting.IsZero():
		return ReasonMachineDeleting, fmt.Sprintf("%s %s is being deleted", s.env.kinds.Machine.GVK.Kind, s.Machine.Key.Name)
	case s.Cluster.Presence == external.Present && !s.Cluster.State.InfrastructureProvisioned:
		return ReasonWaitingForCluster, "Waiting for the infrastructure of Cluster " + s.Cluster.State.Key.Name
	}
	return "", ""
}

// input returns the facts of this pass about the instance. In a deletion the Machine is not read.
func (s *Scope) input(ctx context.Context) instance.Input {
	r, err := s.env.options.Input(ctx, &s.State)
	r.Token = cmp.Or(r.Token, string(s.State.UID))
	r.Name = cmp.Or(r.Name, s.State.Key.Name)
	r.Cluster = cmp.Or(r.Cluster, s.State.ClusterName, s.Machine.ClusterName)
	r.Version = cmp.Or(r.Version, s.Machine.Version)
	r.FailureDomain = cmp.Or(r.FailureDomain, s.Machine.WantedFailureDomain)
	r.ProviderID, r.Resume = s.State.ProviderID, s.State.Resume
	return instance.Input{
		Request: r, Err: err, Provisioned: s.State.Provisioned.Or(false) || instance.IsLost(s.State.FailureReason), Now: s.Now, IsKept: s.IsKept,
		Deleting: s.Deleting() || !s.Machine.Deleting.IsZero(), FirstBoot: s.firstBoot,
		AwaitsData: s.Machine.DataSecretName.Or("") == "",
	}
}

// firstBoot returns the bootstrap data of the Machine. It reads the Secret from the API server: it is needed once, so a cache of all
// Secrets would be a waste and a risk.
func (s *Scope) firstBoot(ctx context.Context, _ provider.Request) ([]byte, error) {
	key := types.NamespacedName{Namespace: s.State.Key.Namespace, Name: s.Machine.DataSecretName.Or("")}
	if read := s.env.options.UserData; read != nil {
		return read(ctx, key)
	}
	return external.ReadBootstrapData(ctx, s.env.ports.APIReader, key)
}

// deleteInstanceStep deletes the instance, and waits until the Driver reports that nothing is left. An instance that another InfraMachine
// has is retained (see decideHolders).
func deleteInstanceStep(ctx context.Context, s *Scope) (Result, error) {
	removal, err := s.remove(ctx)
	switch {
	case err != nil:
		return s.Wait(ReasonWaitingForInstanceDeletion, err.Error()), err
	case removal.Gone:
		return Result{}, nil
	}
	s.Requeue(removal.RequeueAfter)
	return s.Wait(ReasonWaitingForInstanceDeletion, removal.Message), nil
}

func (s *Scope) adopt(found instance.Outcome) {
	engine.Set(&s.State.ProviderID, found.Instance.ProviderID, &s.Update.ProviderID)
	if domain := found.Instance.FailureDomain; domain != "" {
		engine.Set(&s.State.FailureDomain, domain, &s.Update.FailureDomain)
	}
	if addresses := found.Instance.Addresses; len(addresses) > 0 && !slices.Equal(s.State.Addresses, addresses) {
		s.State.Addresses = slices.Clone(addresses)
		s.Update.Addresses = contract.SetTo(s.State.Addresses)
	}
}

func (s *Scope) setResume(resume []byte) {
	if !bytes.Equal(s.State.Resume, resume) {
		s.State.Resume = resume
		s.Update.Resume = contract.SetTo(s.State.Resume)
	}
}
