package chaos_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/machinist-dev/machinist/examples/lab/chaos"
)

// started runs a shell script, whose output is what log returns.
func started(t *testing.T, script string) (p *chaos.Program, log func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	p = chaos.NewProgram("the script", path, "/bin/sh", "-c", script)
	require.NoError(t, p.Start())
	t.Cleanup(p.Kill)
	return p, func() string {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(content)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.NoError(t, wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return is(), nil }), what)
}

func TestAProgramThatEndsStartsAgainUntilItIsStopped(t *testing.T) {
	t.Parallel()
	p, log := started(t, "echo here")
	eventually(t, "a second start", func() bool { return strings.Count(log(), "here") >= 2 })
	require.Positive(t, p.Endings())
	require.NoError(t, p.Stop())
	require.NoError(t, p.Stop())
}

func TestAKilledProgramIsGoneUntilItIsStarted(t *testing.T) {
	t.Parallel()
	p, log := started(t, "echo here; exec sleep 600")
	eventually(t, "the start", func() bool { return log() != "" })
	p.Kill()
	p.Kill()
	require.Zero(t, p.Endings())
	require.NoError(t, p.Start())
	require.NoError(t, p.Start())
	eventually(t, "the second start", func() bool { return log() == "here\nhere\n" })
}

func TestAFrozenProgramGoesOnAndCanBeStoppedAndKilled(t *testing.T) {
	t.Parallel()
	p, log := started(t, `trap 'echo ended; exit 0' TERM; echo here; while :; do sleep 0.05; echo on; done`)
	eventually(t, "the start", func() bool { return log() != "" })
	require.NoError(t, p.Freeze())
	require.NoError(t, p.Thaw())
	n := len(log())
	eventually(t, "more", func() bool { return len(log()) > n })
	require.NoError(t, p.Freeze())
	require.NoError(t, p.Stop())
	require.Contains(t, log(), "ended")
	require.NoError(t, p.Freeze(), "nothing runs")
	require.NoError(t, p.Thaw(), "nothing runs")

	require.NoError(t, p.Start())
	require.NoError(t, p.Freeze())
	p.Kill()
}

func TestAProgramThatDoesNotExistIsAnError(t *testing.T) {
	t.Parallel()
	p := chaos.NewProgram("nothing", filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "no-such-program"))
	require.ErrorContains(t, p.Start(), "start nothing")
	p.Kill()
}
