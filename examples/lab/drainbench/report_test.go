package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func reportOf(t *testing.T, args []string, runs ...measured) *report {
	t.Helper()
	o, err := parse(args, &bytes.Buffer{})
	require.NoError(t, err)
	return newReport(o, runs)
}

func ran(scenario int, arm armName, round int, f figures) measured {
	return measured{Scenario: scenario, Arm: arm, Round: round, Figures: &f}
}

func TestTheLastLineHasTheFormThatOthersRead(t *testing.T) {
	tests := []struct {
		name string
		runs []measured
		want string
	}{
		{
			name: "everything, medians of rounds",
			runs: []measured{
				ran(1, armOurs, 1, figures{PerPod: 1.03, Wall: 10.84}), ran(1, armOurs, 2, figures{PerPod: 1.04, Wall: 12}),
				ran(1, armOurs, 3, figures{PerPod: 1.02, Wall: 10}),
				ran(1, armKubectl, 1, figures{PerPod: 13.042, Wall: 11.38}), ran(1, armDefaults, 1, figures{PerPod: 2.9, Wall: 34}),
				ran(1, armCAPI, 1, figures{PerPod: 1.07, Wall: 30.3}),
				ran(5, armOurs, 1, figures{}), ran(5, armKubectl, 1, figures{WrongNode: 5, PerPod: 99}),
			},
			want: "drain-bench: requests/pod ours=1.03 kubectl=13.04 capi=1.07 | wall ours=10.8s kubectl=11.4s capi=30.3s | " +
				"wrong-node evictions ours=0 kubectl=5",
		},
		{
			name: "an arm that was given up",
			runs: []measured{ran(1, armOurs, 1, figures{PerPod: 1, Wall: 10}), ran(1, armKubectl, 1, figures{PerPod: 140, Wall: 180, Left: 3})},
			want: "drain-bench: requests/pod ours=1.00 kubectl=140.00 capi=- | wall ours=10.0s kubectl=>180.0s capi=- | " +
				"wrong-node evictions ours=- kubectl=-",
		},
		{
			name: "what was not measured or failed is a dash",
			runs: []measured{ran(1, armOurs, 1, figures{PerPod: 1, Wall: 10}), {Scenario: 1, Arm: armCAPI, Round: 1, Error: "no"}},
			want: "drain-bench: requests/pod ours=1.00 kubectl=- capi=- | wall ours=10.0s kubectl=- capi=- | wrong-node evictions ours=- kubectl=-",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := reportOf(t, nil, tc.runs...)
			if diff := cmp.Diff(tc.want, r.Line); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
			var stdout, stderr bytes.Buffer
			require.NoError(t, r.write(&stdout, &stderr, "text", true))
			require.True(t, strings.HasSuffix(stdout.String(), "\n"+tc.want+"\n"), "it is the last line of the output:\n%s", &stdout)
			require.Empty(t, stderr.String())
		})
	}
}

func TestTheTableTellsArmsThatFailedFromThoseThatWereNotMeasured(t *testing.T) {
	r := reportOf(t, []string{"--scenario", "4"},
		ran(4, armOurs, 1, figures{Pods: 10, Wall: 71.44, Reaction: new(0.104), Requests: requests{Evict: 14}, TooMany: 4}),
		measured{Scenario: 4, Arm: armKubectl, Round: 1, Error: "it broke"},
	)
	var out bytes.Buffer
	r.table(&out)
	rows := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		if words := strings.Fields(line); len(words) > 1 {
			rows[words[0]] = words[1:]
		}
	}
	got := map[string][]string{"ours": rows["ours"][:4], "kubectl": rows["kubectl"], "capi": rows["capi"]}
	want := map[string][]string{"ours": {"71.4s", "0.0s", "0.0s", "0.10s"}, "kubectl": {"failed"}, "capi": {"not", "measured"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	require.ErrorContains(t, r.failure(), "scenario 4, kubectl, round 1: it broke")
}

func TestJSONIsOneObjectAndTheLineGoesToPeople(t *testing.T) {
	r := reportOf(t, []string{"--scenario", "1", "-o", "json"}, ran(1, armOurs, 1, figures{Pods: 100, PerPod: 1.03}))
	var stdout, stderr bytes.Buffer
	require.NoError(t, r.write(&stdout, &stderr, "json", true))
	var back report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &back))
	if diff := cmp.Diff(r, &back); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	require.Equal(t, r.Line+"\n", stderr.String())
}

func TestAnInterruptedRunHasATableAndNoLastLine(t *testing.T) {
	r := reportOf(t, nil, ran(1, armOurs, 1, figures{Pods: 100}))
	var stdout, stderr bytes.Buffer
	require.NoError(t, r.write(&stdout, &stderr, "text", false))
	require.Contains(t, stdout.String(), "(1) one Node of 100 pods")
	require.NotContains(t, stdout.String()+stderr.String(), "drain-bench: requests/pod")
}
