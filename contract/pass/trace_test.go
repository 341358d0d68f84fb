package pass_test

import (
	"bytes"
	"context"
	"errors"
	"runtime/trace"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract/pass"
)

// It does not run beside other tests: a process records one trace at a time.
func TestAnExecutionTraceNamesThePassesTheirObjectsAndTheirSteps(t *testing.T) {
	failed := errors.New("failed")
	b := newBench(t, true, step{Name: "looks", On: pass.InRunning, Run: func(context.Context, *scope) (pass.Result, error) {
		return pass.Result{}, failed
	}})
	obj := b.create()
	var recorded bytes.Buffer
	require.NoError(t, trace.Start(&recorded))
	_, err := b.pass(obj)
	trace.Stop()
	require.ErrorIs(t, err, failed, "a pass that fails is recorded too")
	for _, text := range []string{"reconcile MachineDeployment", obj.GetName(), "looks", "write"} {
		require.Contains(t, recorded.String(), text)
	}

	recorded.Reset()
	_, err = b.pass(obj)
	require.ErrorIs(t, err, failed)
	require.Empty(t, recorded.String())
}
