package main

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

func TestTheCommandLineExplainsItself(t *testing.T) {
	tests := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{name: "help", args: []string{"--help"}, code: bench.ExitOK, stdout: "(4) a budget that stays closed"},
		{name: "help of the last line", args: []string{"-h"}, code: bench.ExitOK, stdout: "wrong-node evictions of scenario 5"},
		{name: "an unknown flag", args: []string{"-x"}, code: bench.ExitUsage, stderr: "-x"},
		{name: "an argument", args: []string{"now"}, code: bench.ExitUsage, stderr: `unexpected argument "now"`},
		{name: "an unknown format", args: []string{"-o", "xml"}, code: bench.ExitUsage, stderr: "text or json"},
		{name: "no rounds", args: []string{"--rounds", "0"}, code: bench.ExitUsage, stderr: "at least 1"},
		{name: "an unknown scenario", args: []string{"--scenario", "1,7"}, code: bench.ExitUsage, stderr: `no scenario "7"; there are 1 to 6`},
		{name: "no number", args: []string{"--scenario", "all"}, code: bench.ExitUsage, stderr: `no scenario "all"`},
		{name: "an unknown arm", args: []string{"--arms", "ours,karpenter"}, code: bench.ExitUsage, stderr: `no arm "karpenter"`},
		{name: "nothing in common", args: []string{"--scenario", "2", "--arms", "capi"}, code: bench.ExitUsage, stderr: "none of the scenarios"},
		{name: "a child without a parent", args: []string{childCommand, "-x"}, code: bench.ExitUsage, stderr: "-x"},
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

func TestScenariosAndArmsAreNarrowedToWhatWasNamed(t *testing.T) {
	tests := []struct {
		args []string
		want map[int][]armName
	}{
		{nil, map[int][]armName{
			1: {armOurs, armKubectl, armDefaults, armCAPI}, 2: {armOurs, armKubectl}, 3: {armOurs, armKubectl},
			4: {armOurs, armKubectl, armCAPI}, 5: {armOurs, armKubectl}, 6: {armOurs, armKubectl},
		}},
		{[]string{"--scenario", "4, 1", "--arms", "capi,ours"}, map[int][]armName{1: {armOurs, armCAPI}, 4: {armOurs, armCAPI}}},
		{[]string{"--arms", "capi"}, map[int][]armName{1: {armCAPI}, 4: {armCAPI}}},
		{[]string{"--scenario", "6"}, map[int][]armName{6: {armOurs, armKubectl}}},
	}
	for _, tc := range tests {
		o, err := parse(tc.args, io.Discard)
		require.NoError(t, err, tc.args)
		got := map[int][]armName{}
		for _, s := range o.scenarios {
			got[s.number] = s.arms
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
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

func TestNoBudgetOpensInStepWithThoseWhoPoll(t *testing.T) {
	for round := range 4 {
		closed := closedFor(round)
		require.GreaterOrEqual(t, closed, time.Minute)
		for _, period := range []time.Duration{5 * time.Second, 20 * time.Second} {
			rest := closed % period
			require.GreaterOrEqual(t, min(rest, period-rest), 2*time.Second, "round %d, period %s", round, period)
		}
	}
}

func TestScenariosAreNumberedInOrder(t *testing.T) {
	for i, s := range scenarios() {
		require.Equal(t, i+1, s.number)
		require.Equal(t, armOurs, s.arms[0])
		require.False(t, s.killed && slices.Contains(s.arms, armCAPI), "only arms that run in a child process can be killed")
		require.False(t, s.budget == closedBudget && s.script == nil, "the budget of scenario %d never opens", s.number)
	}
}
