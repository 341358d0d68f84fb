// Package e2e_test runs this library against real control planes.
package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
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
	if plane.real != nil {
		if err := plane.real.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
