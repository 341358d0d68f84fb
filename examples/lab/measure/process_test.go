package measure_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/measure"
)

func TestAProcessThatEndsByItselfEndsTheWorkAndTellsItsLastWords(t *testing.T) {
	p, err := measure.StartProcess("the helper", filepath.Join(t.TempDir(), "log"), nil, "go", "no-such-command")
	require.NoError(t, err)
	err = p.While(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorContains(t, err, "the helper ended unexpectedly")
	require.ErrorContains(t, err, "no-such-command")
	p.Stop()
}

func TestWorkBesideAProcessReturnsItsOwnResult(t *testing.T) {
	p, err := measure.StartProcess("the helper", filepath.Join(t.TempDir(), "log"), []string{"GOFLAGS="}, "go", "version")
	require.NoError(t, err)
	require.NoError(t, p.While(t.Context(), func(context.Context) error { return nil }))
	broken := errors.New("it broke")
	require.ErrorIs(t, p.While(t.Context(), func(context.Context) error { return broken }), broken)
	p.Stop()
}

func TestAProgramThatIsNotThereIsNamed(t *testing.T) {
	_, err := measure.StartProcess("the helper", filepath.Join(t.TempDir(), "log"), nil, filepath.Join(t.TempDir(), "missing"))
	require.ErrorContains(t, err, "start the helper")
}

func TestTheMemoryOfAProcessIsItsOwn(t *testing.T) {
	p, err := measure.StartProcess("the helper", filepath.Join(t.TempDir(), "log"), nil, "sleep", "60")
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	peak, known := p.PeakMemory()
	require.Equal(t, runtime.GOOS == "linux", known)
	if known {
		require.Greater(t, peak, float64(1<<10))
		require.Less(t, peak, float64(64<<20))
	}
}
