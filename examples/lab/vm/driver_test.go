package vm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/vm"
)

// programs puts scripts in the place of the programs that make disks and run machines.
func programs(t *testing.T, qemu string) {
	t.Helper()
	dir := t.TempDir()
	for name, does := range map[string]string{"genisoimage": "touch seed", "qemu-img": "touch disk", "qemu-system-x86_64": qemu} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+does+"\n"), 0o700))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestTheDriverPassesTheConformanceSuiteAndLeavesNothing(t *testing.T) {
	programs(t, "exec sleep 600")
	folder := t.TempDir()
	var n atomic.Int64
	env := provider.Conformance{
		Driver: vm.New(vm.Image{}, folder), Request: provider.Request{Cluster: "conformance", Spec: []byte(`{"cpus":1}`)},
		Invalid: []byte(`{"memoryMiB":"much"}`), Token: func() string { return fmt.Sprint("token-", n.Add(1)) },
		Limit: time.Minute, Pause: time.Millisecond,
	}
	for _, c := range provider.Cases() {
		require.NoError(t, c.Run(t.Context(), env), "%s, because %s", c.Name, c.Reason)
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestAMachineThatEndsIsStopped(t *testing.T) {
	programs(t, "true")
	driver, r := vm.New(vm.Image{}, t.TempDir()), provider.Request{Token: "uid-1", Name: "m1"}
	_, err := driver.Create(t.Context(), r)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		i, err := driver.Get(t.Context(), r)
		return err == nil && i.State == provider.Stopped
	}, time.Minute, time.Millisecond)
	gone, err := driver.Delete(t.Context(), r)
	require.NoError(t, err)
	require.True(t, gone)
}

func TestATokenIsNoPath(t *testing.T) {
	_, err := vm.New(vm.Image{}, t.TempDir()).Create(t.Context(), provider.Request{Token: "../other"})
	require.Equal(t, provider.Invalid, provider.ClassOf(err))
}
