package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func reportOf(t *testing.T, args []string, runs ...measured) *report {
	t.Helper()
	o, err := parse(args, io.Discard)
	require.NoError(t, err)
	return newReport(o, runs)
}

// ledBy is a fleet of 100 Machines with as many writes, milliseconds of CPU and KiB each, which took as many seconds.
func ledBy(arm armName, l limitName, writes, cpu, kib, wall float64) measured {
	f := &figures{
		Machines: 100,
		Create: phase{Wall: wall / 2, CPU: cpu / 2000, Writes: map[string]float64{"machines": writes}, Reads: map[string]float64{},
			Watches: map[string]float64{}},
		Delete: phase{Wall: wall / 2, CPU: cpu / 2000, Writes: map[string]float64{}, Reads: map[string]float64{"nodes": 1},
			Watches: map[string]float64{}},
	}
	if kib > 0 {
		f.Heap = heapOf(0, 100*1024*kib, 100, 30)
	}
	return measured{Arm: arm, Limits: l, Round: 1, Figures: f}
}

func TestTheLastLinesJudgeEveryTarget(t *testing.T) {
	tests := []struct {
		name string
		args []string
		runs []measured
		want []string
	}{
		{
			name: "everything",
			runs: []measured{
				ledBy(armOurs, limitDefault, 10, 6, 20, 10), ledBy(armCAPI, limitDefault, 28, 60, 50, 40),
				ledBy(armOurs, limitOff, 10.5, 6, 0, 5), ledBy(armCAPI, limitOff, 120, 150, 0, 80),
			},
			want: []string{
				"machine-bench: limits=default writes/machine ours=10.0 capi=28.0 ratio=0.36 (<=0.50 met) | " +
					"cpu/machine ours=6.0ms capi=60.0ms ratio=0.10 (<=0.20 met) | heap/machine ours=20.0KiB capi=50.0KiB ratio=0.40 (<=0.50 met) | " +
					"rate ours=10.0/s capi=2.5/s ratio=4.00 (>=2.00 met)",
				"machine-bench: limits=off writes/machine ours=10.5 capi=120.0 ratio=0.09 (<=0.50 met) | " +
					"cpu/machine ours=6.0ms capi=150.0ms ratio=0.04 (<=0.20 met) | heap/machine ours=- capi=- ratio=- (<=0.50 not measured) | " +
					"rate ours=20.0/s capi=1.2/s ratio=16.00 (>=2.00 met)",
				"machine-bench: our writes/machine off=10.5 default=10.0 ratio=1.05 (<=1.10 met) | " +
					"our reads/machine off=1.0 default=1.0 ratio=1.00 (<=1.10 met)",
			},
		},
		{
			name: "targets that are missed", args: []string{"--limits", "default"},
			runs: []measured{ledBy(armOurs, limitDefault, 20, 30, 40, 30), ledBy(armCAPI, limitDefault, 28, 60, 50, 40)},
			want: []string{
				"machine-bench: limits=default writes/machine ours=20.0 capi=28.0 ratio=0.71 (<=0.50 missed) | " +
					"cpu/machine ours=30.0ms capi=60.0ms ratio=0.50 (<=0.20 missed) | " +
					"heap/machine ours=40.0KiB capi=50.0KiB ratio=0.80 (<=0.50 missed) | " +
					"rate ours=3.3/s capi=2.5/s ratio=1.33 (>=2.00 missed)",
			},
		},
		{
			name: "an arm alone", args: []string{"--limits", "off", "--arms", "ours"},
			runs: []measured{ledBy(armOurs, limitOff, 10, 6, 20, 10)},
			want: []string{
				"machine-bench: limits=off writes/machine ours=10.0 capi=- ratio=- (<=0.50 not measured) | " +
					"cpu/machine ours=6.0ms capi=- ratio=- (<=0.20 not measured) | heap/machine ours=20.0KiB capi=- ratio=- (<=0.50 not measured) | " +
					"rate ours=10.0/s capi=- ratio=- (>=2.00 not measured)",
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := reportOf(t, tc.args, tc.runs...)
			if diff := cmp.Diff(tc.want, r.Lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			var stdout, stderr bytes.Buffer
			require.NoError(t, r.write(&stdout, &stderr, "text", true))
			require.True(t, strings.HasSuffix(stdout.String(), "\n"+strings.Join(tc.want, "\n")+"\n"), "they end the output:\n%s", &stdout)
			require.Empty(t, stderr.String())
		})
	}
}

func TestTheTablesSayWhatWasWrittenByResourceAndWhatFailed(t *testing.T) {
	broken := measured{Arm: armCAPI, Limits: limitDefault, Round: 1, Error: "it broke"}
	ours := ledBy(armOurs, limitDefault, 10, 6, 20, 10)
	ours.Figures.Create.Writes = map[string]float64{"nodes": 1, "machines/status": 2.5, "events": 1}
	ours.Figures.Steady = &rests{Seconds: 300, Reads: 30, Watches: 4}
	r := reportOf(t, []string{"--limits", "default"}, ours, broken)
	var out bytes.Buffer
	r.tables(&out)
	require.Contains(t, out.String(), "create, writes: machines/status 2.50, events 1.00, nodes 1.00\n")
	require.Contains(t, out.String(), "delete, writes: none\n")
	require.Contains(t, out.String(), "300 s of rest: 0 writes, 30 reads, 4 watches in all\n")
	rows := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		if words := strings.Fields(line); len(words) > 1 && (words[0] == "ours" || words[0] == "capi") {
			rows[words[0]] = append(rows[words[0]], words[1])
		}
	}
	if diff := cmp.Diff(map[string][]string{"ours": {"create", "delete", "both"}, "capi": {"failed"}}, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	require.ErrorContains(t, r.failure(), "capi, limits default, round 1: it broke")
}

func TestJSONIsOneObjectAndTheLinesGoToPeople(t *testing.T) {
	r := reportOf(t, []string{"-o", "json"}, ledBy(armOurs, limitDefault, 10, 6, 20, 10), ledBy(armCAPI, limitDefault, 28, 60, 50, 40))
	var stdout, stderr bytes.Buffer
	require.NoError(t, r.write(&stdout, &stderr, "json", true))
	var back report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &back))
	if diff := cmp.Diff(r, &back); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	require.Equal(t, strings.Join(r.Lines, "\n")+"\n", stderr.String())
}

func TestAnInterruptedRunHasTablesAndNoLastLines(t *testing.T) {
	r := reportOf(t, nil, ledBy(armOurs, limitDefault, 10, 6, 20, 10))
	var stdout, stderr bytes.Buffer
	require.NoError(t, r.write(&stdout, &stderr, "text", false))
	require.Contains(t, stdout.String(), "limits: default")
	require.NotContains(t, stdout.String()+stderr.String(), ownName)
}
