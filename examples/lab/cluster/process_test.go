package cluster

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
)

// eventually polls, because the components work when they get to it. The limit is for busy machines.
func eventually(t *testing.T, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	const poll, limit = 100 * time.Millisecond, 2 * time.Minute
	require.NoError(t, wait.PollUntilContextTimeout(t.Context(), poll, limit, true, condition), what)
}

// logged starts a shell that prints what a component would print, and waits until it is gone.
func logged(t *testing.T, script string) (*process, chan error) {
	t.Helper()
	deaths := make(chan error, 1)
	p, err := startProcess(Etcd, exec.Command("/bin/sh", "-c", script), filepath.Join(t.TempDir(), "log"),
		func(err error) { deaths <- err })
	require.NoError(t, err)
	return p, deaths
}

func TestADeathIsReportedWithTheEndOfTheLog(t *testing.T) {
	_, deaths := logged(t, "i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done; exit 3")
	err := <-deaths
	require.ErrorContains(t, err, "etcd ended with exit status 3")
	require.ErrorContains(t, err, "  line 80\n")
	require.ErrorContains(t, err, "  line 99")
	require.NotContains(t, err.Error(), "line 79\n")
	require.NotErrorIs(t, err, errPortTaken)
}

func TestAPortThatIsTakenIsRecognised(t *testing.T) {
	_, deaths := logged(t, "echo listen tcp 127.0.0.1:1: bind: address already in use; exit 1")
	require.ErrorIs(t, <-deaths, errPortTaken)
}

func TestAKilledProcessIsNoDeath(t *testing.T) {
	p, deaths := logged(t, "exec sleep 600")
	p.kill()
	<-p.ended
	require.Error(t, p.err)
	require.Empty(t, deaths)
}

// stateOf is how the process goes on: T is a stopped one. It is empty where there is no /proc.
func stateOf(t *testing.T, p *process) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stat"))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(content), ") ")
	return after[:1]
}

func TestAFrozenProcessGoesOnWhenItIsThawedAndCanBeKilled(t *testing.T) {
	p, deaths := logged(t, "exec sleep 600")
	require.NoError(t, p.freeze())
	eventually(t, "the process is stopped", func(context.Context) (bool, error) {
		state := stateOf(t, p)
		return state == "T" || state == "", nil
	})
	require.NoError(t, p.thaw())
	require.NoError(t, p.thaw(), "it does nothing for one that is not frozen")
	eventually(t, "the process goes on", func(context.Context) (bool, error) { return stateOf(t, p) != "T", nil })
	require.NoError(t, p.freeze())
	p.kill()
	require.Error(t, p.err)
	require.Empty(t, deaths)
	require.ErrorIs(t, p.freeze(), ErrNotRunning)
	require.ErrorIs(t, p.thaw(), ErrNotRunning)
}

func TestTheEndOfALogThatIsNotThereOrEmptySaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	require.Contains(t, logTail(path), "no log a.log")
	require.NoError(t, os.WriteFile(path, []byte("\n"), 0o600))
	require.Contains(t, logTail(path), "empty")
}
