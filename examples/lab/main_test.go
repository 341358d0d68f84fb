package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCommandLineExplainsItself(t *testing.T) {
	tests := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{name: "help", args: []string{"--help"}, code: exitOK, stdout: "go run -C examples/lab . up"},
		{name: "no command", code: exitUsage, stderr: "give up, demo, build, bench or skew"},
		{name: "an unknown command", args: []string{"down"}, code: exitUsage, stderr: `unknown command "down": give up, demo, build, bench or skew`},
		{name: "a folder that is not there", args: []string{"up", "-C", "no/such"}, code: exitUsage, stderr: "no such file or directory"},
		{name: "help of up", args: []string{"up", "-h"}, code: exitOK, stdout: "-nodes int"},
		{name: "help of demo", args: []string{"demo", "--help"}, code: exitOK, stdout: "stops all on Ctrl-C"},
		{name: "an unknown format of demo", args: []string{"demo", "-o", "xml"}, code: exitUsage, stderr: "text or json"},
		{name: "help of build", args: []string{"build", "--help"}, code: exitOK, stdout: "cache directory"},
		{name: "an unknown flag", args: []string{"up", "-x"}, code: exitUsage, stderr: "-x"},
		{name: "an argument too many", args: []string{"up", "now"}, code: exitUsage, stderr: `unexpected argument "now"`},
		{name: "an unknown format", args: []string{"up", "-o", "xml"}, code: exitUsage, stderr: "text or json"},
		{name: "help of a benchmark", args: []string{"bench", "drain", "-h"}, code: exitOK, stdout: "(4) a budget that stays closed"},
		{name: "an unknown benchmark", args: []string{"bench"}, code: exitUsage, stderr: "there are [machine set"},
		{name: "no versions", args: []string{"skew"}, code: exitUsage, stderr: "--servers and --runtimes are missing"},
		{name: "negative nodes", args: []string{"up", "-nodes", "-1"}, code: exitUsage, stderr: "-nodes"},
		{name: "a negative time", args: []string{"up", "-pod-termination", "-1s"}, code: exitUsage, stderr: "-pod-termination"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, test.code, run(t.Context(), test.args, &stdout, &stderr))
			require.Contains(t, stdout.String(), test.stdout)
			require.Contains(t, stderr.String(), test.stderr)
			if test.stdout == "" {
				require.Empty(t, stdout.String())
			}
			if test.stderr == "" {
				require.Empty(t, stderr.String())
			}
		})
	}
}

func TestOutsideACheckoutItSaysWhatItNeeds(t *testing.T) {
	checkout, err := os.Getwd()
	require.NoError(t, err)
	for _, command := range []string{"up", "demo", "build"} {
		t.Chdir(t.TempDir())
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), []string{command}, &stdout, &stderr))
		require.Contains(t, stderr.String(), "the sources of the control plane's binaries were not found")
		require.Contains(t, stderr.String(), "lab "+command+" -C DIR")
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // before anything starts
		stderr.Reset()
		require.Equal(t, exitFailed, run(ctx, []string{command, "-C", checkout}, &stdout, &stderr))
		require.NotContains(t, stderr.String(), "-C DIR", "it has looked there")
	}
}

func TestAnInterruptedStartSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run(ctx, []string{"up"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "interrupted")
	require.Empty(t, stdout.String())
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestOutputThatIsLostIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"up", "-h"}, {"build", "-h"}} {
		var stderr bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), args, full{}, &stderr), args)
		require.Equal(t, 1, strings.Count(stderr.String(), "no space left"), stderr.String())
	}
}
