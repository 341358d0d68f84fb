package main

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/healthcheck"
)

func TestFlagsReachTheManager(t *testing.T) {
	t.Parallel()
	scheme, err := newScheme(api.ClusterAPI)
	require.NoError(t, err)
	got := managerOptions(given(t, "--leader-elect", "--leader-election-id=a", "--leader-elect-lease-duration=60s",
		"--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=5s", "--pprof-bind-address=:6060",
		"--namespace=a,b"), scheme, logr.Discard())
	require.Equal(t, []time.Duration{time.Minute, 40 * time.Second, 5 * time.Second},
		[]time.Duration{*got.LeaseDuration, *got.RenewDeadline, *got.RetryPeriod})
	require.Equal(t, ":6060", got.PprofBindAddress)
	require.Equal(t, map[string]cache.Config{"a": {}, "b": {}}, got.Cache.DefaultNamespaces)
	require.Nil(t, managerOptions(given(t), scheme, logr.Discard()).Cache.DefaultNamespaces, "all")
	mgr := storeManager(t, fake.NewStore(fake.Options{}), api.ClusterAPI)
	require.Equal(t, 7, passOptions(mgr, given(t, "--worker-count=7")).Controller.MaxConcurrentReconciles)
	require.Equal(t, contract.Versions(), contractVersions(given(t)))
	require.Contains(t, contractVersions(given(t, "--old-contracts")), contract.V1Alpha3)
}

func TestAJoinTimeoutIsALimitOfEveryHealthCheck(t *testing.T) {
	t.Parallel()
	check := &contract.HealthCheckState{NodeStartup: contract.Some(time.Hour)}
	want := healthcheck.ChecksOf(check)
	require.Equal(t, want, joining(0)(check), "what the check says")
	want.Join = 25 * time.Minute
	require.Equal(t, want, joining(25*time.Minute)(check))
}
