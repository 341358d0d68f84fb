package arm

import (
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

func TestTheDrainOfClusterAPIEndsWhenItDeletesTheInfrastructure(t *testing.T) {
	group := fake.InfraMachineGVK(contract.V1Beta2).Group
	at := func(ms int) time.Time {
		return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
	}
	event := func(ms int, verb, group, resource string) cluster.AuditEvent {
		return cluster.AuditEvent{Received: at(ms), Verb: verb, Group: group, Resource: resource}
	}
	c := &capiDrain{}
	require.Equal(t, at(300), c.Ended(cluster.AuditEvents{
		event(50, "delete", "", "pods"), event(100, "delete", group, "fakemachines"), event(300, "delete", group, "fakemachines"),
		event(900, "delete", "", "nodes"), event(950, "get", group, "fakemachines"),
	}))
	require.True(t, c.Ended(nil).IsZero())
}

func TestStartDrainer(t *testing.T) {
	_, err := StartDrainer(t.Context(), CAPI, nil)
	require.ErrorContains(t, err, "does not run in this process")
}

func TestLimitsAreThoseOfClusterAPIOnBothSidesOrNone(t *testing.T) {
	require.Equal(t, []string{"--workload-clusters", "--kube-api-qps=100", "--workload-api-qps=20"}, DefaultLimits(Ours))
	require.Empty(t, DefaultLimits(CAPI))
	require.Equal(t, []string{"--workload-clusters", "--kube-api-qps=-1", "--workload-api-qps=-1"}, NoLimits(Ours))
	require.Equal(t, []string{"--kube-api-qps=-1", "--clustercache-client-qps=-1"}, NoLimits(CAPI))
}
