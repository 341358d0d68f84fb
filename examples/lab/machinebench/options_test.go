package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
)

func TestTheCommandLineExplainsItself(t *testing.T) {
	tests := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{name: "help", args: []string{"--help"}, code: bench.ExitOK, stdout: "Targets, of both halves"},
		{name: "help of a flag", args: []string{"-h"}, code: bench.ExitOK, stdout: "how many Machines are created at once"},
		{name: "an unknown flag", args: []string{"-x"}, code: bench.ExitUsage, stderr: "-x"},
		{name: "an argument", args: []string{"now"}, code: bench.ExitUsage, stderr: `unexpected argument "now"`},
		{name: "an unknown format", args: []string{"-o", "xml"}, code: bench.ExitUsage, stderr: "text or json"},
		{name: "no Machines", args: []string{"--machines", "0"}, code: bench.ExitUsage, stderr: "--machines must be 1 to 9999"},
		{name: "too many Machines", args: []string{"--machines", "10000"}, code: bench.ExitUsage, stderr: "--machines must be 1 to 9999"},
		{name: "fewer pods than none", args: []string{"--pods", "-1"}, code: bench.ExitUsage, stderr: "--pods must be 0 or more"},
		{name: "no rounds", args: []string{"--rounds", "0"}, code: bench.ExitUsage, stderr: "at least 1"},
		{name: "time that runs backwards", args: []string{"--steady", "-1s"}, code: bench.ExitUsage, stderr: "--steady"},
		{name: "an unknown arm", args: []string{"--arms", "ours,mcm"}, code: bench.ExitUsage, stderr: `no arm "mcm"; there are [ours capi]`},
		{name: "an unknown limit", args: []string{"--limits", "all"}, code: bench.ExitUsage, stderr: `no limit "all"; there are [default off]`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, tc.code, run(t.Context(), tc.args, strings.NewReader(""), &stdout, &stderr))
			require.Contains(t, stdout.String(), tc.stdout)
			require.Contains(t, stderr.String(), tc.stderr)
			require.Equal(t, tc.stdout == "", stdout.Len() == 0)
			require.Equal(t, tc.stderr == "", stderr.Len() == 0)
		})
	}
}

func TestWhatIsNamedIsMeasuredInTheOrderOfTheHelp(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want options
	}{
		{nil, options{output: "text", machines: 500, pods: 30, rounds: 1, arms: arms.Names(), limits: limitNames()}},
		{
			[]string{"--arms", "capi, ours", "--limits", "off", "--machines", "50", "--pods", "0", "--steady", "5m", "--rounds", "3", "-o", "json"},
			options{
				output: "json", machines: 50, rounds: 3, arms: arms.Names(), limits: []limitName{limitOff}, steady: 5 * time.Minute,
			},
		},
	} {
		got, err := parse(tc.args, io.Discard)
		require.NoError(t, err)
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(options{})); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.args, diff)
		}
	}
}

func TestAnInterruptedStartSaysSoAndMeasuresNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, bench.ExitFailed, run(ctx, []string{"--arms", "ours"}, strings.NewReader(""), &stdout, &stderr))
	require.Contains(t, stderr.String(), "interrupted")
	require.Empty(t, stdout.String())
}

func TestLimitsAreThoseOfClusterAPIOnBothSidesOrNone(t *testing.T) {
	for l, want := range map[limitName]struct{ ours, capi []string }{
		limitDefault: {ours: []string{"--kube-api-qps=100", "--workload-api-qps=20"}},
		limitOff: {ours: []string{"--kube-api-qps=-1", "--workload-api-qps=-1"},
			capi: []string{"--kube-api-qps=-1", "--clustercache-client-qps=-1"}},
	} {
		require.Subset(t, l.flags(armOurs), want.ours)
		require.Equal(t, want.capi, l.flags(armCAPI))
	}
}
