//go:build e2e

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// demoLimit is for a busy machine; the demo is ready after 20 seconds on a quiet one.
const demoLimit = 15 * time.Minute

// TestE2EWhatTheDemoSaysToTryWorksAsItStands runs each command that the demo prints, in its order, in a shell.
func TestE2EWhatTheDemoSaysToTryWorksAsItStands(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), demoLimit)
	defer cancel()
	read, write := io.Pipe()
	var log bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"demo", "-o", "json"}, write, &log)
		_ = write.Close()
	}()
	var ready struct {
		Kubeconfig, Path string
		Try              []struct{ Command, Shows string }
	}
	require.NoError(t, json.NewDecoder(read).Decode(&ready), "%s", &log)
	go func() { _, _ = io.Copy(io.Discard, read) }()
	require.Len(t, ready.Try, len(tries()))
	for _, try := range ready.Try {
		cmd := exec.CommandContext(ctx, "sh", "-c", try.Command)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+ready.Kubeconfig, "PATH="+ready.Path+":"+os.Getenv("PATH"))
		cmd.WaitDelay = time.Second // what the shell has started may go on
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", try.Command, out)
		t.Logf("%s\n%s", try.Command, out)
	}
	cancel()
	require.Equal(t, exitOK, <-ended, "%s", &log)
	require.NoDirExists(t, ready.Path)
}
