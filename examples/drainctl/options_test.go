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
	return options{
		command: command, nodes: nodes, rules: "kubectl", order: "none", ignoreDaemonSets: true, gracePeriod: -1, concurrency: 1,
		dryRun: "none",
	}
}

func TestFlagsHaveSafeDefaults(t *testing.T) {
	t.Parallel()
	got, err := parse([]string{"run", "a", "b", "a"}, io.Discard)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(defaults(commandRun, "a", "b"), got, cmp.AllowUnexported(options{}, given{})))
}

func TestFlagsStandBeforeBetweenAndAfterTheNames(t *testing.T) {
	t.Parallel()
	got, err := parse([]string{
		"--context", "prod", "run", "a", "--force", "--delete-emptydir-data", "b", "--grace-period=30", "--timeout", "5m",
		"--skip-wait-for-delete-timeout=60", "--pod-selector", "app!=x", "--concurrency=0", "--order=priority", "--delete-after=1m",
		"-o", "json", "--dry-run", "--wait", "--wait-volumes", "--kubeconfig=k", "--ignore-daemonsets=false", "c",
	}, io.Discard)
	require.NoError(t, err)
	want := defaults(commandRun, "a", "b", "c")
	want.context, want.kubeconfig, want.output, want.podSelector, want.order = "prod", "k", "json", "app!=x", "priority"
	want.force, want.deleteEmptyDirData, want.wait, want.waitVolumes, want.ignoreDaemonSets = true, true, true, true, false
	want.gracePeriod, want.skipWaitForDelete, want.concurrency, want.dryRun = 30, 60, 0, "client"
	want.timeout, want.deleteAfter = 5*time.Minute, time.Minute
	want.given = got.given
	require.Empty(t, cmp.Diff(want, got, cmp.AllowUnexported(options{}, given{})))
}

func TestWrongFlagsAreExplained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":                   {nil, "give a command"},
		"an unknown command":        {[]string{"drain", "a"}, `unknown command "drain": give plan, run or uncordon`},
		"no Node":                   {[]string{"run"}, "name the Nodes, or select them with -l"},
		"names and a selector":      {[]string{"run", "a", "-l", "x=y"}, "-l x=y and names (a)"},
		"a selector that is none":   {[]string{"plan", "-l", "x in"}, `--selector "x in"`},
		"a pod selector":            {[]string{"plan", "a", "--pod-selector", "!!"}, `--pod-selector "!!"`},
		"a format of another":       {[]string{"plan", "a", "-o", "lines"}, "plan knows json, wide"},
		"a format of run":           {[]string{"run", "a", "-o", "wide"}, "run knows json, lines"},
		"no formats":                {[]string{"uncordon", "a", "-o", "json"}, "uncordon knows no formats"},
		"rules":                     {[]string{"run", "a", "--rules=x"}, `--rules "x": give kubectl or capi`},
		"a flag of other rules":     {[]string{"run", "a", "--rules=capi", "--force"}, "--force has no meaning"},
		"a kill":                    {[]string{"run", "a", "--grace-period=0"}, "--grace-period 0 forgets pods"},
		"a strange grace period":    {[]string{"run", "a", "--grace-period=-2"}, "--grace-period -2"},
		"a server's dry run":        {[]string{"run", "a", "--dry-run=server"}, "promises too much"},
		"a strange dry run":         {[]string{"run", "a", "--dry-run=maybe"}, `--dry-run "maybe"`},
		"negative Nodes":            {[]string{"run", "a", "--concurrency=-1"}, "--concurrency -1"},
		"a negative time":           {[]string{"run", "a", "--timeout=-1s"}, "--timeout -1s"},
		"a negative escalation":     {[]string{"run", "a", "--delete-after=-1s"}, "--delete-after -1s"},
		"an escalation at the end":  {[]string{"run", "a", "--delete-after=1s", "--disable-eviction"}, "--delete-after has no meaning"},
		"a negative wait":           {[]string{"run", "a", "--skip-wait-for-delete-timeout=-1"}, "--skip-wait-for-delete-timeout -1"},
		"an unknown flag":           {[]string{"run", "a", "--frobnicate"}, "frobnicate"},
		"everything that is wrong":  {[]string{"run", "--order=x", "--rules=y"}, "--order"},
		"everything, the other one": {[]string{"run", "--order=x", "--rules=y"}, "--rules"},
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

func TestCommandsArePrintedForAShell(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{
		"plan", "a", "--force", "--pod-selector", "app notin (x)", "-o=json", "--ignore-daemonsets=false", "--context=it's",
	}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, `drainctl run a --context 'it'\''s' --force --ignore-daemonsets=false --pod-selector 'app notin (x)'`,
		o.again(commandRun))
	require.Equal(t, `drainctl uncordon a --context 'it'\''s'`, o.again(commandUncordon))
}

func TestPrintRBAC_HasWhatTheCommandNeeds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args          []string
		want, without []string
	}{
		"all": {[]string{"--print-rbac"}, []string{"kind: ClusterRole", "pods/eviction", "daemonsets"},
			[]string{"delete", "persistentvolumes"}},
		"plan":     {[]string{"plan", "--print-rbac"}, []string{"poddisruptionbudgets"}, []string{"patch", "watch", "create"}},
		"uncordon": {[]string{"uncordon", "--print-rbac"}, []string{"nodes", "patch"}, []string{"pods"}},
		"more": {
			[]string{"run", "a", "--print-rbac", "--wait-volumes", "--delete-after=1s"},
			[]string{"volumeattachments", "persistentvolumes", "- delete"}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitDone, execute(c.args, &stdout, &stderr))
			for _, want := range c.want {
				require.Contains(t, stdout.String(), want)
			}
			for _, without := range c.without {
				require.NotContains(t, stdout.String(), without)
			}
		})
	}
}
