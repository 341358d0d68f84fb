package e2e_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/stretchr/testify/require"
)

// The cases have first-boot data that start no kubelet, so no control plane is needed.
func TestTheDriverPassesTheConformanceSuite(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	env := provider.Conformance{
		Driver: newHollow(nil), Request: provider.Request{Cluster: "conformance"},
		Invalid: []byte(`{"maxPods":"many"}`), Token: func() string { return fmt.Sprint("token-", n.Add(1)) },
		Limit: time.Minute, Pause: time.Millisecond,
	}
	for _, c := range provider.Cases() {
		require.NoError(t, c.Run(t.Context(), env), "%s, because %s", c.Name, c.Reason)
	}
}

func TestAMachineWhoseFirstBootFailsRunsAndNeverJoins(t *testing.T) {
	t.Parallel()
	driver := newHollow(nil)
	r := provider.Request{Token: "uid-1", Name: "m1", UserData: []byte("#!/bin/sh\necho secret-of-m1\n")}
	_, err := driver.Create(t.Context(), r)
	require.NoError(t, err)
	made, err := driver.Get(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, provider.Running, made.State)
	require.Contains(t, made.Message, "the first-boot data start no kubelet")
	require.NotContains(t, made.Message, "secret-of-m1")
	require.Nil(t, driver.Kubelet("uid-1"))
}
