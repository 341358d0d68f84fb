package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

func TestAMachineWhoseClusterCannotBeReachedWaitsOrGoesAsItsLimitsSay(t *testing.T) {
	t.Parallel()
	server := newFar(1)
	server.up()
	f := newFarWorld(t, machine.Options{StatusDelay: -1, ConnectionGrace: -1}, map[string]*far{"a": server})
	patient, hasty := f.provisionedIn("a", "patient", "fake://x/1"), f.provisionedIn("a", "hasty", "fake://x/2")
	f.joins(server, "n1", "fake://x/1")
	f.joins(server, "n2", "fake://x/2")
	f.conditionIs(patient, machine.ConditionReady, machine.ReasonReady)
	f.conditionIs(hasty, machine.ConditionReady, machine.ReasonReady)
	server.down()
	f.conditionIs(patient, machine.ConditionNodeReady, machine.ReasonConnectionDown)
	f.conditionIs(hasty, machine.ConditionNodeReady, machine.ReasonConnectionDown)
	limits := map[string]any{"spec": map[string]any{"deletion": map[string]any{
		"nodeDrainTimeoutSeconds": 1, "nodeVolumeDetachTimeoutSeconds": 1, "nodeDeletionTimeoutSeconds": 1}}}
	f.merge(hasty, limits)
	require.NoError(t, f.client.Delete(t.Context(), patient))
	require.NoError(t, f.client.Delete(t.Context(), hasty))
	f.conditionSays(patient, machine.ConditionDeleting, machine.ReasonDrainingNode, "cluster default/a is not connected")

	t.Log("with limits it goes, and one after another: no stage is left out before its time")
	f.goes(hasty, fake.InfraMachine(contract.V1Beta2, "hasty"))

	t.Log("without, it waits; a limit that is set later counts from the recorded start")
	fresh := f.get(patient)
	require.Equal(t, machine.ReasonDrainingNode, conditionOf(fresh, machine.ConditionDeleting).Reason)
	require.NotEmpty(t, startOf(fresh, "nodeDrainStartTime"))
	require.Nil(t, f.get(fake.InfraMachine(contract.V1Beta2, "patient")).GetDeletionTimestamp())
	f.mergeStatus(patient, map[string]any{"deletion": map[string]any{"nodeDrainStartTime": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}})
	f.merge(patient, limits)
	f.goes(patient)
	require.NotNil(t, f.nodeIn(server, "n1"))
	require.NotNil(t, f.nodeIn(server, "n2"))
}

// reads lets Nodes be listed and watched, or not.
func (f *far) reads(nodes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unread = !nodes
}

// The server is back before anybody has heard of the Node that joined, and took pods, while it was lost.
func TestAMachineWhoseNodeJoinedDuringAnOutageIsDrainedAllTheSame(t *testing.T) {
	t.Parallel()
	server := newFar(1)
	server.up()
	f := newFarWorld(t, machine.Options{ConnectionGrace: -1}, map[string]*far{"a": server})
	m := f.provisionedIn("a", "m", "fake://x/1")
	f.joins(server, "another", "fake://x/2")
	f.conditionSays(m, machine.ConditionNodeReady, machine.ReasonInspectionFailed, "Waiting for a Node with spec.providerID fake://x/1")
	server.down()
	f.conditionIs(m, machine.ConditionNodeReady, machine.ReasonConnectionDown)
	f.joins(server, "n", "fake://x/1")
	require.NoError(t, f.client.Delete(t.Context(), m))
	f.conditionSays(m, machine.ConditionDeleting, machine.ReasonDrainingNode, "cluster default/a is not connected")

	server.reads(false)
	server.up()
	f.conditionSays(m, machine.ConditionDeleting, machine.ReasonDrainingNode, "what happened meanwhile is being read")
	f.isLeftAlone("m")
	require.Nil(t, f.get(fake.InfraMachine(contract.V1Beta2, "m")).GetDeletionTimestamp())

	server.reads(true)
	f.goes(m)
	require.Nil(t, f.nodeIn(server, "n"), "it was found")
	require.NotZero(t, server.CountRequests(func(r fake.Request) bool { return r.IsWrite() && r.Name == "n" }))
}
