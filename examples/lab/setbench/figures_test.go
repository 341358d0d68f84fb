package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/fake"
)

// named is the phase with another name.
func (p phase) named(name string) phase {
	p.name = name
	return p
}

func TestWritesAreCountedByWhatTheyAre(t *testing.T) {
	events := cluster.AuditEvents{
		{Verb: "create", Resource: "machines", Code: 201}, {Verb: "patch", Resource: "machinesets", Subresource: "status", Code: 409},
		{Verb: "list", Resource: "machines", Code: 200}, {Verb: "watch", Resource: "machines", Code: 200},
		{Verb: "update", Resource: "leases", Code: 200},
	}
	p := phaseOf(events, time.Time{}, 2*time.Second)
	if diff := cmp.Diff(map[string]int{"create machines": 1, "patch machinesets/status": 1}, p.writes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	require.Equal(t, 1, p.reads)
	require.Equal(t, 1, p.conflicts)
	require.InDelta(t, 2, p.seconds, 0)
}

func TestTheLastLineHasMediansAndRatios(t *testing.T) {
	at := func(seconds float64, writes int) figures {
		p := phase{seconds: seconds, writes: map[string]int{"create machines": writes}}
		return figures{machines: 10, cpu: seconds, phases: []phase{p.named(stepUp), p.named(stepDown)}}
	}
	text := report(options{machines: 10, rounds: 3}, map[arms.Name][]figures{armOurs: {at(1, 10), at(9, 10), at(2, 10)}, armCAPI: {at(4, 20)}})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	want := "set-bench: writes/machine ours=2.00 capi=4.00 ratio=0.50 | cpu ours=2.00s capi=4.00s ratio=0.50 | " +
		"up ours=2.00s capi=4.00s ratio=0.50 | down ours=2.00s capi=4.00s ratio=0.50"
	require.Equal(t, want, lines[len(lines)-1])
	alone := report(options{machines: 10, rounds: 1}, map[arms.Name][]figures{armOurs: {at(1, 10)}})
	require.Contains(t, alone, "ratio=-")
}

func TestTheCostOfARolloutIsPrintedOnItsOwn(t *testing.T) {
	p := phase{seconds: 3, writes: map[string]int{"create machines": 10}}
	text := report(options{machines: 10, rounds: 1, rollout: true}, map[arms.Name][]figures{armOurs: {{
		machines: 10, phases: []phase{p.named(stepUp), p.named(stepRoll), p.named(stepDown)},
	}}})
	require.Contains(t, text, "10 + 10 + 10")
	require.Contains(t, text, "roll-writes/machine ours=1.00")
	require.Contains(t, text, "Machines of one deployment")
}

func TestTheCostOfAFleetIsPrintedForEachMachine(t *testing.T) {
	p := phase{seconds: 3, cpu: 0.5, heap: 102400, reads: 10, writes: map[string]int{"patch machines": 40}}
	text := report(options{machines: 100, rounds: 1, fleet: true}, map[arms.Name][]figures{armOurs: {{
		machines: 100, phases: []phase{p.named(stepUp), p.named(stepRoll), p.named(stepDown)},
	}}})
	for _, want := range []string{
		"Machines of 10 deployments", "fleet-bench: heap/machine ours=1.00KiB", "| cpu/machine ours=5.00ms", "| requests/machine ours=0.50",
		"roll-cpu/replaced ours=50.00ms", "roll-requests/replaced ours=5.00", "deletion-writes/machine ours=4.00",
		"deletion-reads/machine ours=1.00",
	} {
		require.Contains(t, text, want)
	}
}

func TestTheTimeOfAReplacementBeginsWhenNodesFail(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int, verb string) cluster.AuditEvent {
		return cluster.AuditEvent{Received: start.Add(time.Duration(seconds) * time.Second), Verb: verb, Resource: "machines", Code: 200}
	}
	p := phaseOf(cluster.AuditEvents{at(12, "delete"), at(11, "delete"), at(14, "create"), at(13, "get")}, start, 20*time.Second)
	require.Equal(t, map[string]span{"delete machines": {11, 12}, "create machines": {14, 14}}, p.times)
	require.InDelta(t, 9, p.work(), 0)
	f := figures{machines: 10, replaced: 2, memory: 3 << 20, phases: []phase{
		phase{writes: map[string]int{"patch machines/status": 10}, seconds: 1}.named(stepJudge), p.named(stepReplace),
	}}
	text := report(options{machines: 10, rounds: 1, health: true}, map[arms.Name][]figures{armOurs: {f}})
	require.Contains(t, text, "judged after 1.0s; 1 Machines deleted 11.0s to 12.0s after their Nodes failed, "+
		"the last other one Available after 20.0s")
	require.Contains(t, text, "health-bench: requests/replaced ours=2.00 capi=0.00 ratio=- | writes/replaced ours=1.50 capi=0.00 ratio=- | "+
		"judge-writes/machine ours=1.00 capi=0.00 ratio=- | cpu ours=0.00s capi=0.00s ratio=- | replaced ours=20.00s capi=0.00s ratio=- | "+
		"work ours=9.00s capi=0.00s ratio=- | memory ours=3.00MiB capi=0.00MiB ratio=-")
}

// With most Machines of a zone it would be an outage, which ours does not end by new Machines.
func TestMachinesGoBadInAllZones(t *testing.T) {
	var machines []unstructured.Unstructured
	for i := range 300 {
		name := fmt.Sprintf("m-%03d", i)
		m := fake.Machine(name, fake.WithField(name, "status", "nodeRef", "name"))
		m.SetUID(types.UID(name))
		machines = append(machines, *m)
	}
	nodes, uids := victims(machines, 30)
	inZone := map[string]int{}
	for _, node := range nodes {
		inZone[zoneOf(node)]++
		require.True(t, uids[types.UID(node)])
	}
	require.Equal(t, map[string]int{"zone-0": 10, "zone-1": 10, "zone-2": 10}, inZone)
	again, _ := victims(machines, 30)
	require.Equal(t, nodes, again)
	all, _ := victims(machines[:2], 5)
	require.Len(t, all, 2)
	require.Equal(t, 1, options{machines: 3, health: true}.bad())
	require.Equal(t, 30, options{machines: 300, health: true}.bad())
	require.Zero(t, options{machines: 300}.bad())
}

func TestWrongFlagsAreNamed(t *testing.T) {
	var out strings.Builder
	for _, args := range [][]string{
		{"--machines", "0"}, {"--rounds", "0"}, {"--arms", "theirs"}, {"--health", "--rollout"}, {"--fleet", "--rollout"}, {"more"},
		{"--nothing"},
		{"--fleet", "--machines", "505"}, {"--managers", "2"}, {"--fleet", "--managers", "2"}, {"--fleet", "--managers", "0"},
		{"--fleet", "--managers", "2", "--arms", "ours", "--floor"}, {"--fleet", "--workers", "0"},
	} {
		_, err := parse(args, &out)
		require.ErrorIs(t, err, bench.ErrUsage, args)
	}
	o, err := parse([]string{"--arms", "ours", "--machines", "5"}, &out)
	require.NoError(t, err)
	require.Equal(t, options{machines: 5, rounds: 1, managers: 1, workers: 100, arms: []arms.Name{armOurs}}, o)
	require.Empty(t, out.String())
}
