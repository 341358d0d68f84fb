package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/controlplane/arms"
	"github.com/machinist-dev/machinist/examples/controlplane/bench"
	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
)

func TestWritesAreCountedByWhatTheyAre(t *testing.T) {
	events := cluster.AuditEvents{
		{Verb: "create", Resource: "machines", Code: 201}, {Verb: "patch", Resource: "machinesets", Subresource: "status", Code: 409},
		{Verb: "list", Resource: "machines", Code: 200}, {Verb: "watch", Resource: "machines", Code: 200},
		{Verb: "update", Resource: "leases", Code: 200},
	}
	p := phaseOf(events, 2*time.Second)
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
		return figures{machines: 10, cpu: seconds, up: p, down: p}
	}
	text := report(options{machines: 10, rounds: 3}, map[arms.Name][]figures{armOurs: {at(1, 10), at(9, 10), at(2, 10)}, armCAPI: {at(4, 20)}})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	want := "set-bench: writes/machine ours=2.00 capi=4.00 ratio=0.50 | cpu ours=2.00s capi=4.00s ratio=0.50 | " +
		"up ours=2.00s capi=4.00s ratio=0.50 | down ours=2.00s capi=4.00s ratio=0.50"
	require.Equal(t, want, lines[len(lines)-1])
	alone := report(options{machines: 10, rounds: 1}, map[arms.Name][]figures{armOurs: {at(1, 10)}})
	require.Contains(t, alone, "ratio=-")
}

func TestTheCostOfARolloutIsSaidOnItsOwn(t *testing.T) {
	p := phase{seconds: 3, writes: map[string]int{"create machines": 10}}
	text := report(options{machines: 10, rounds: 1, rollout: true}, map[arms.Name][]figures{armOurs: {{machines: 10, up: p, down: p, roll: &p}}})
	require.Contains(t, text, "10 + 10 + 10")
	require.Contains(t, text, "roll-writes/machine ours=1.00")
	require.Contains(t, text, "Machines of one deployment")
}

func TestWrongFlagsAreNamed(t *testing.T) {
	var out strings.Builder
	for _, args := range [][]string{{"--machines", "0"}, {"--rounds", "0"}, {"--arms", "theirs"}, {"more"}, {"--nothing"}} {
		_, err := parse(args, &out)
		require.ErrorIs(t, err, bench.ErrUsage, args)
	}
	o, err := parse([]string{"--arms", "ours", "--machines", "5"}, &out)
	require.NoError(t, err)
	require.Equal(t, options{machines: 5, rounds: 1, arms: []arms.Name{armOurs}}, o)
	require.Empty(t, out.String())
}
