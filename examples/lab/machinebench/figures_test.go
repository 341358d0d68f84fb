package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

func event(verb, resource, subresource string, code int) cluster.AuditEvent {
	return cluster.AuditEvent{Verb: verb, Resource: resource, Subresource: subresource, Code: code}
}

func TestRequestsAreCountedPerMachineAndByResource(t *testing.T) {
	events := cluster.AuditEvents{
		event("patch", "machines", "status", 200), event("patch", "machines", "status", 409), event("patch", "machines", "", 200),
		event("create", "events", "", 201), event("delete", "nodes", "", 200), event("create", "pods", "eviction", 429),
		event("get", "fakemachines", "", 200), event("get", "fakemachines", "", 404), event("list", "pods", "", 200),
		event("watch", "nodes", "", 200), event("update", "leases", "", 200), event("get", "leases", "", 200),
		{Verb: "get", URI: "/api/v1", Code: 200},
		{Verb: "patch", Resource: "nodes", Code: 200, DryRun: true},
	}
	var p phase
	p.fromEvents(events, 2)
	want := phase{
		Writes:    map[string]float64{"machines/status": 1, "machines": 0.5, "events": 0.5, "nodes": 0.5, "pods/eviction": 0.5},
		Reads:     map[string]float64{"fakemachines": 1, "pods": 0.5, "(no resource)": 0.5},
		Watches:   map[string]float64{"nodes": 0.5},
		Conflicts: 1,
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("phase (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&rests{Seconds: 300, Writes: 6, Reads: 4, Watches: 1}, restsOf(events, 300)); diff != "" {
		t.Errorf("at rest (-want +got):\n%s", diff)
	}
}

func TestFiguresOfAWholeLifeAreThoseOfBothHalves(t *testing.T) {
	f := figures{
		Machines: 100,
		Create:   phase{Wall: 15, CPU: 0.01, Writes: map[string]float64{"machines": 2, "nodes": 1}, Reads: map[string]float64{"pods": 1}},
		Delete:   phase{Wall: 5, CPU: 0.02, Writes: map[string]float64{"nodes": 2}, Reads: map[string]float64{"pods": 2}},
	}
	require.InDelta(t, 5, f.writes(), 1e-9)
	require.InDelta(t, 3, f.reads(), 1e-9)
	require.InDelta(t, 0.03, f.cpu(), 1e-9)
	require.InDelta(t, 5, f.rate(), 1e-9)
	require.Zero(t, (&figures{Machines: 3}).rate(), "what took no time has no rate")
	require.Equal(t, &heap{Empty: 1000, Full: 3000, PerMachine: 20, PodsPerNode: 30}, heapOf(1000, 3000, 100, 30))
}

// A field that medians forgets would be printed as 0 for ever, so each has a value of its own here.
func TestMediansKnowEveryFigure(t *testing.T) {
	all := func(n int) figures {
		f := float64(n)
		return figures{
			Machines: n,
			Create: phase{Wall: f + 1, CPU: f + 2, Writes: map[string]float64{"a": f + 3}, Reads: map[string]float64{"b": f + 4},
				Watches: map[string]float64{"e": f + 19}, Conflicts: n + 5},
			Delete: phase{Wall: f + 6, CPU: f + 7, Writes: map[string]float64{"c": f + 8}, Reads: map[string]float64{"d": f + 9},
				Watches: map[string]float64{"f": f + 20}, Conflicts: n + 10},
			Heap:   &heap{Empty: f + 11, Full: f + 12, PerMachine: f + 13, PodsPerNode: n + 14},
			Steady: &rests{Seconds: f + 15, Writes: n + 16, Reads: n + 17, Watches: n + 18},
		}
	}
	if diff := cmp.Diff(all(20), medians([]figures{all(500), all(1), all(20)})); diff != "" {
		t.Errorf("medians (-want +got):\n%s", diff)
	}
	seldom := figures{Create: phase{Writes: map[string]float64{"events": 1}}}
	got := medians([]figures{{}, seldom, {}})
	require.Zero(t, got.Create.Writes["events"], "a round without a write counts as none")
	require.Nil(t, got.Heap)
	require.Nil(t, got.Steady)
}
