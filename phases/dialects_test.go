package phases_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/phases"
)

// v1alpha3 says what Cluster API v0.3 makes of a new Machine: later rules override earlier ones.
func v1alpha3(f phases.Facts) phases.Phase {
	phase := phases.Pending
	for _, rule := range []struct {
		holds bool
		phase phases.Phase
	}{
		{f.BootstrapReady || f.InfrastructureReady, phases.Provisioning},
		{f.HasNode, phases.Provisioned},
		{f.HasNode && f.InfrastructureReady, phases.Running},
		{f.Failed, phases.Failed},
		{f.Deleting, phases.Deleting},
	} {
		if rule.holds {
			phase = rule.phase
		}
	}
	return phase
}

func TestV1Alpha3_ProvisionedWhenTheNodeAppearsAndRunningWhenTheInfrastructureIsReadyAsWell(t *testing.T) {
	for _, f := range everyFacts() {
		require.Equal(t, v1alpha3(f), phases.ClusterAPIV1Alpha3().Compute(f).Phase, "%+v", f)
	}
}

func TestV1Beta1_AFailureIsAPhaseAndAnUpdateIsNone(t *testing.T) {
	for _, f := range everyFacts() {
		want := phases.ClusterAPI().Compute(phases.Facts{Deleting: f.Deleting, BootstrapReady: f.BootstrapReady,
			InfrastructureReady: f.InfrastructureReady, HasProviderID: f.HasProviderID, HasNode: f.HasNode}).Phase
		if f.Failed && !f.Deleting {
			want = phases.Failed
		}
		require.Equal(t, want, phases.ClusterAPIV1Beta1().Compute(f).Phase, "%+v", f)
	}
}

func TestKubermatic_FollowsTheStatesOfItsPage(t *testing.T) {
	type facts = phases.KubermaticFacts
	for name, c := range map[string]struct {
		facts facts
		want  phases.Decision
	}{
		"new": {facts{},
			phases.Decision{Phase: "Validating", Reason: "WaitingForValidation", Waiting: phases.GateValidation}},
		"refused": {facts{Failed: true},
			phases.Decision{Phase: "Failed", Reason: "FailureReported", Waiting: phases.GateRepair}},
		"held by an initializer": {facts{Held: true, Valid: true},
			phases.Decision{Phase: "Pending", Reason: "Held", Waiting: phases.GateRepair}},
		"accepted": {facts{Valid: true},
			phases.Decision{Phase: "Provisioning", Reason: "CreatingInstance", Waiting: phases.GateInfrastructure}},
		"an instance without addresses": {facts{Valid: true, HasInstance: true},
			phases.Decision{Phase: "Provisioning", Reason: "WaitingForAddresses", Waiting: phases.GateInfrastructure}},
		"an instance with addresses": {facts{Valid: true, HasInstance: true, HasAddresses: true},
			phases.Decision{Phase: "Joining", Reason: "WaitingForNode", Waiting: phases.GateNode}},
		"a Node that was never ready": {facts{Valid: true, HasInstance: true, HasAddresses: true, HasNode: true},
			phases.Decision{Phase: "Joining", Reason: "WaitingForNodeToBeReady", Waiting: phases.GateHealth}},
		"a Node that was ready": {facts{Valid: true, HasInstance: true, HasAddresses: true, HasNode: true, NodeWasReady: true},
			phases.Decision{Phase: "Running", Reason: "NodeReady"}},
		"an adopted instance that was not validated": {facts{HasInstance: true, HasAddresses: true},
			phases.Decision{Phase: "Joining", Reason: "WaitingForNode", Waiting: phases.GateNode}},
		"paused while it runs": {facts{Held: true, HasNode: true, NodeWasReady: true},
			phases.Decision{Phase: "Running", Reason: "NodeReady"}},
		"failed after it ran": {facts{Failed: true, HasNode: true, NodeWasReady: true},
			phases.Decision{Phase: "Failed", Reason: "FailureReported", Waiting: phases.GateRepair}},
		"deleted": {facts{Deleting: true, Failed: true, HasNode: true},
			phases.Decision{Phase: "Deleting", Reason: "DeletionRequested", Waiting: phases.GateDeletion}},
		"cleaned up": {facts{Deleting: true, Gone: true}, phases.Decision{Phase: "Deleted", Reason: "CleanedUp"}},
		"gone without a request": {facts{Gone: true, Valid: true},
			phases.Decision{Phase: "Provisioning", Reason: "CreatingInstance", Waiting: phases.GateInfrastructure}},
	} {
		require.Equal(t, c.want, phases.Kubermatic().Compute(c.facts), name)
	}
}

func TestGardener_FollowsItsTransitions(t *testing.T) {
	type facts = phases.GardenerFacts
	joined := facts{HasInstance: true, Joined: true}
	with := func(change func(*facts)) facts {
		f := joined
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		facts  facts
		want   phases.Phase
		reason string
	}{
		"new":             {facts{}, "Pending", "CreatingInstance"},
		"a VM":            {facts{HasInstance: true}, "Pending", "WaitingForNode"},
		"creation failed": {facts{CreateFailed: true}, "CrashLoopBackOff", "CreateFailed"},
		"healthy":         {facts{HasInstance: true, Healthy: true}, "Running", "NodeHealthy"},
		"unhealthy":       {joined, "Unknown", "NodeUnhealthy"},
		"failed before":   {facts{HasInstance: true, WasFailed: true}, "Failed", "NotHealthySince"},
		"failed after a failed update": {facts{HasInstance: true, WasFailed: true, UpdateStarted: true, UpdateFailed: true},
			"Failed", "NotHealthySince"},
		"failed and healthy again": {facts{HasInstance: true, WasFailed: true, Healthy: true}, "Running", "NodeHealthy"},
		"update":                   {with(func(f *facts) { f.UpdateStarted = true }), "InPlaceUpdating", "UpdateStarted"},
		"health is not looked at meanwhile": {
			with(func(f *facts) { f.UpdateStarted, f.Healthy = true, true }), "InPlaceUpdating", "UpdateStarted"},
		"update done and healthy": {with(func(f *facts) { f.Healthy = true }), "Running", "NodeHealthy"},
		"update failed": {with(func(f *facts) { f.UpdateStarted, f.UpdateFailed, f.Healthy = true, true, true }),
			"InPlaceUpdateFailed", "UpdateFailed"},
		"deletion": {with(func(f *facts) { f.Deleting, f.Healthy = true, true }), "Terminating", "DeletionRequested"},
	} {
		got := phases.Gardener().Compute(c.facts)
		require.Equal(t, c.want, got.Phase, name)
		require.Equal(t, c.reason, got.Reason, name)
	}
}
