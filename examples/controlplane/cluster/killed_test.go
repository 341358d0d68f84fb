package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUpLeavesNothingBehindWhenItIsKilled(t *testing.T) {
	// The programs first: "up" would build them too, but silently in this test.
	_, err := Build(t.Context(), testLog{t})
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "up")
	_, err = goOutput(t.Context(), "", "build", "-buildvcs=false", "-o", program, rootModule+"/examples/controlplane")
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

	require.NoError(t, up.Process.Kill())
	_ = up.Wait()
	eventually(t, "all processes are gone", func(context.Context) (bool, error) {
		return len(processesWith(t, parent)) == 0, nil
	})
	require.Empty(t, namesIn(t, parent), "files are left")
}

// processesWith returns the command lines of all living processes that name dir in their arguments.
func processesWith(t *testing.T, dir string) []string {
	t.Helper()
	found := []string{}
	for _, line := range commandLines(t) {
		if strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}

// commandLines reads /proc where there is one, since ps is not installed everywhere.
func commandLines(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	if len(files) == 0 {
		out, err := exec.CommandContext(t.Context(), "ps", "-axww", "-o", "args=").Output()
		require.NoError(t, err)
		return strings.Split(string(out), "\n")
	}
	var lines []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended in the meantime
		}
		lines = append(lines, strings.ReplaceAll(string(content), "\x00", " "))
	}
	return lines
}
