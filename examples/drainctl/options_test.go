package main

import (
	"bytes"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func defaults(command string, nodes ...string) options {
	return options{command: command, nodes: nodes, ignoreDaemonSets: true, gracePeriod: -1}
}

func TestFlagsHaveSafeDefaults(t *testing.T) {
	t.Parallel()
	got, err := parse([]string{"run", "a", "b", "a"}, io.Discard)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(defaults(commandRun, "a", "b"), got, cmp.AllowUnexported(options{})))
}

func TestFlagsStandBeforeBetweenAndAfterTheNames(t *testing.T) {
	t.Parallel()
	got, err := parse([]string{
		"--context", "prod", "run", "a", "--force", "--delete-emptydir-data", "b", "--grace-period=30", "--timeout", "5m",
		"--skip-wait-for-delete-timeout=60", "--wait", "--kubeconfig=k", "--ignore-daemonsets=false", "c",
	}, io.Discard)
	require.NoError(t, err)
	want := defaults(commandRun, "a", "b", "c")
	want.context, want.kubeconfig = "prod", "k"
	want.force, want.deleteEmptyDirData, want.wait, want.ignoreDaemonSets = true, true, true, false
	want.gracePeriod, want.skipWaitForDelete = 30, 60
	want.timeout = 5 * time.Minute
	require.Empty(t, cmp.Diff(want, got, cmp.AllowUnexported(options{})))
}

func TestWrongFlagsAreExplained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":                   {nil, "give a command"},
		"an unknown command":        {[]string{"drain", "a"}, `unknown command "drain": must be plan or run`},
		"no Node":                   {[]string{"run"}, "name the Nodes, or select them with -l"},
		"names and a selector":      {[]string{"run", "a", "-l", "x=y"}, "-l x=y and names (a)"},
		"a selector that is none":   {[]string{"plan", "-l", "x in"}, `--selector "x in"`},
		"a kill":                    {[]string{"run", "a", "--grace-period=0"}, "--grace-period 0 forgets pods"},
		"a strange grace period":    {[]string{"run", "a", "--grace-period=-2"}, "--grace-period -2"},
		"a negative time":           {[]string{"run", "a", "--timeout=-1s"}, "--timeout -1s"},
		"a negative wait":           {[]string{"run", "a", "--skip-wait-for-delete-timeout=-1"}, "--skip-wait-for-delete-timeout -1"},
		"everything, one":           {[]string{"run", "--timeout=-1s", "--grace-period=0"}, "--timeout -1s"},
		"everything, the other one": {[]string{"run", "--timeout=-1s", "--grace-period=0"}, "--grace-period 0"},
		"an unknown flag":           {[]string{"run", "a", "--frobnicate"}, "frobnicate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitUsage, execute(c.args, &stdout, &stderr))
			require.Contains(t, stderr.String(), c.want)
			require.Contains(t, stderr.String(), "--help for help")
			require.Empty(t, stdout.String())
		})
	}
}

func TestHelpTeaches(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	_, err := parse([]string{"run", "--help"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, want := range []string{"drainctl plan worker-1", "What differs, and why", "-delete-emptydir-data", "Exit codes", "130"} {
		require.Contains(t, out.String(), want)
	}
}
