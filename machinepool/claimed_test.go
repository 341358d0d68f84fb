package machinepool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
)

func TestANodeThatAMachineClaimsIsNeitherDrainedNorDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	pool, infra := w.poolOf("p://1", "p://2", "p://3")
	machine := fake.Machine("standalone", set("p://1", "spec", "providerID"))
	w.create(machine)
	w.isQuiet()
	w.writeNode("n-0", markLeaving)
	require.Contains(t, w.conditionIs(pool, contract.ConditionMachinesReady, contract.ReasonNodeClaimed), "n-0")
	w.nodeIs("n-0", false, false)
	w.writeNode("n-0", markStaying)
	w.conditionIs(pool, contract.ConditionMachinesReady, contract.ReasonReady)
	w.listed(infra, "p://3") // 1 and 2 leave
	w.nodesGo(2)
	w.nodeIs("n-0", false, false)
	w.conditionIs(pool, contract.ConditionMachinesReady, contract.ReasonReady) // that the instance is the Machine's is no problem
	second := fake.Machine("other", set("p://3", "spec", "providerID"))
	w.create(second)
	require.NoError(t, w.client.Delete(t.Context(), pool))
	w.goes(pool)
	require.Len(t, w.nodes(), 2)
}

func TestANodeIsDrainedWhenNoMachineClaimsItAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	pool, _ := w.poolOf("p://1")
	machine := fake.Machine("standalone", set("p://1", "spec", "providerID"))
	w.create(machine)
	w.isQuiet()
	w.writeNode("n-0", markLeaving)
	w.conditionIs(pool, contract.ConditionMachinesReady, contract.ReasonNodeClaimed)
	w.isQuiet()
	w.change(machine, set("p://2", "spec", "providerID")) // which wakes no pool
	w.nodeIs("n-0", true, true)
	w.conditionIs(pool, contract.ConditionMachinesReady, contract.ReasonReady)
}

func TestANodeWithoutAnInstanceIsDeletedWhenNoMachineClaimsItAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	pool, infra := w.poolOf("p://1", "p://2")
	machine := fake.Machine("standalone", set("p://1", "spec", "providerID"))
	w.create(machine)
	w.isQuiet()
	w.listed(infra, "p://2")
	w.isQuiet()
	w.conditionIs(pool, contract.ConditionMachinesReady, contract.ReasonReady)
	require.Len(t, w.nodes(), 2)
	w.change(machine, set("p://3", "spec", "providerID")) // which wakes no pool
	w.nodesGo(1)
}
