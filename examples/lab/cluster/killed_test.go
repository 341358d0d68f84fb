//go:build e2e

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The components are frozen when their parent is killed. Then a process group has no parent any more in its session, and the kernel
// continues what is stopped in it.
func TestUpLeavesNothingBehindWhenItIsKilled(t *testing.T) {
	// The programs first: "up" would build them too, but silently in this test.
	_, err := Build(t.Context(), testLog{t})
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "up")
	_, err = goOutput(t.Context(), "", "build", "-buildvcs=false", "-o", program, labModule)
	require.NoError(t, err)
	parent := t.TempDir()
	up := exec.Command(program, "up", "-nodes", "1", "-o", "json")
	up.Env = append(os.Environ(), "TMPDIR="+parent)
	var messages strings.Builder
	up.Stderr = &messages
	stdout, err := up.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, up.Start())
	t.Cleanup(func() { _ = up.Process.Kill() })

	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		_ = up.Wait()
		require.NoError(t, err, messages.String())
	}
	var ready struct{ Kubeconfig, Server string }
	require.NoError(t, json.Unmarshal(line, &ready), "%s", line)
	require.FileExists(t, ready.Kubeconfig)
	// All components and the sweeper name the directory in their arguments.
	require.Len(t, processesWith(t, parent), len(Components())+1)

	for pid := range processesWith(t, parent) {
		frozen, err := os.FindProcess(pid)
		require.NoError(t, err)
		require.NoError(t, frozen.Signal(syscall.SIGSTOP))
	}
	// A process that stops after its parent's death is not continued.
	for pid := range processesWith(t, parent) {
		eventually(t, "all processes are stopped", func(context.Context) (bool, error) { return isStopped(t, pid), nil })
	}

	require.NoError(t, up.Process.Kill())
	_ = up.Wait()
	eventually(t, "all processes are gone", func(context.Context) (bool, error) {
		return len(processesWith(t, parent)) == 0, nil
	})
	require.Empty(t, namesIn(t, parent), "files are left")
}

// processesWith returns the command lines, by process ID, of all living processes that name dir in their arguments.
func processesWith(t *testing.T, dir string) map[int]string {
	t.Helper()
	found := map[int]string{}
	for pid, line := range commandLines(t) {
		if strings.Contains(line, dir) {
			found[pid] = line
		}
	}
	return found
}

// isStopped reports whether a process is stopped by a signal. The state follows the name in parentheses, which can have spaces.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	state := strings.TrimSpace(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if errors.Is(err, os.ErrNotExist) {
		content, err = exec.CommandContext(t.Context(), "ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
		state = strings.TrimSpace(string(content))
	}
	require.NoError(t, err, "process %d", pid)
	return strings.HasPrefix(state, "T")
}

// commandLines reads /proc where there is one, since ps is not installed everywhere.
func commandLines(t *testing.T) map[int]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	lines := map[int]string{}
	if len(files) == 0 {
		out, err := exec.CommandContext(t.Context(), "ps", "-axww", "-o", "pid=,args=").Output()
		require.NoError(t, err)
		for line := range strings.Lines(string(out)) {
			text, args, _ := strings.Cut(strings.TrimSpace(line), " ")
			pid, err := strconv.Atoi(text)
			require.NoError(t, err)
			lines[pid] = args
		}
		return lines
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended in the meantime
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		lines[pid] = strings.ReplaceAll(string(content), "\x00", " ")
	}
	return lines
}
