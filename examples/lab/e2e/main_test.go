//go:build e2e

// Package e2e_test runs this library against real control planes.
package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// shared is the control plane that all tests of this package use. It starts with the first test that asks for it, because that
// takes a few seconds, and minutes when its binaries have to be built.
var plane struct {
	once sync.Once
	real *cluster.ControlPlane
	err  error
}

func shared(t *testing.T) *cluster.ControlPlane {
	t.Helper()
	plane.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute) // a cold build
		defer cancel()
		plane.real, plane.err = cluster.Start(ctx, cluster.Options{Log: os.Stderr})
	})
	require.NoError(t, plane.err)
	return plane.real
}

// manager is examples/manager, which is built once, for the first test that asks for it.
var manager struct {
	once sync.Once
	dir  string
	err  error
}

func managerBinary(t *testing.T) string {
	t.Helper()
	manager.once.Do(func() { manager.dir, manager.err = buildManager() })
	require.NoError(t, manager.err)
	return filepath.Join(manager.dir, "manager")
}

// buildManager returns the directory of the program, which outlives the test that needs it first.
func buildManager() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "machinist-manager-"); err != nil {
		return "", err
	}
	const program = "github.com/machinist-dev/machinist/examples/manager"
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", dir, program).CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build the manager: %w: %s", err, out)
	}
	return dir, nil
}

// turn is whose turn it is on the shared control plane among parallel tests.
var turn sync.Mutex

// takesTurns lets a test run beside those with a control plane of their own, and not beside another one that takes turns.
func takesTurns(t *testing.T) {
	t.Helper()
	t.Parallel()
	turn.Lock()
	t.Cleanup(turn.Unlock)
}

// sideBySide is how many parallel tests run at a time unless the command line says so: they wait for others, and compute little.
const sideBySide = 8

func TestMain(m *testing.M) {
	flag.Parse()
	limited := false
	flag.Visit(func(f *flag.Flag) { limited = limited || f.Name == "test.parallel" })
	if !limited {
		if err := flag.Set("test.parallel", strconv.Itoa(sideBySide)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if err := os.RemoveAll(manager.dir); err != nil {
		fmt.Fprintln(os.Stderr, "removing the manager:", err)
		code = max(code, 1)
	}
	if plane.real != nil {
		if err := plane.real.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
