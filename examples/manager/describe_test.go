package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongWordsOfCommandsAreExplained(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"describe":         "give a kind and a name",
		"describe node n1": "give a kind and a name",
		"describe machine": "give a kind and a name",
		"describe -o yaml": `-o "yaml": give json`,
		"orphans x":        `unexpected argument "x"`,
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, execute(strings.Fields(words), &stdout, &stderr), words)
		require.Contains(t, stderr.String(), want)
		require.Empty(t, stdout.String())
	}
	for _, command := range []string{"describe", "orphans", "rollout"} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitDone, execute([]string{command, "--help"}, &stdout, &stderr))
		require.Contains(t, stdout.String(), "Exit codes")
		require.Contains(t, stdout.String(), "-kubeconfig")
	}
}
