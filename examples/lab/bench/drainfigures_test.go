package bench

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/examples/lab/arm"
	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/measure"
)

// at is a moment of the tests' own time, in milliseconds.
func at(ms int) time.Time {
	return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func eviction(ms int, pod string, code int) cluster.AuditEvent {
	return cluster.AuditEvent{
		Received: at(ms), Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: "default", Name: pod, Code: code,
	}
}

func request(verb, group, resource string) cluster.AuditEvent {
	return cluster.AuditEvent{Received: at(0), Verb: verb, Group: group, Resource: resource, Code: http.StatusOK}
}

func statusOf(ms int, budget string) cluster.AuditEvent {
	return cluster.AuditEvent{
		Received: at(ms), Verb: "update", Group: "policy", Resource: "poddisruptionbudgets", Subresource: "status", Name: budget,
	}
}

func TestRequestsAreCountedByKindAndOthersBusinessIsLeftOut(t *testing.T) {
	dryRun := eviction(0, "a", http.StatusCreated)
	dryRun.DryRun = true
	events := cluster.AuditEvents{
		eviction(0, "a", http.StatusCreated), eviction(0, "b", http.StatusTooManyRequests), dryRun,
		request("get", "", "pods"), request("list", "", "pods"), request("watch", "", "pods"),
		request("patch", "", "nodes"), request("delete", "", "nodes"), request("watch", "policy", "poddisruptionbudgets"),
		request("patch", "cluster.x-k8s.io", "machines"), request("create", "", "events"), request("get", "", "secrets"),
		{Verb: "get", URI: "/api/v1"}, {Verb: "get", URI: "/apis?x=y"}, {Verb: "get", URI: "/"}, {Verb: "get", URI: "/readyz"},
	}
	run := measure.NewRun("1", arm.Ours, 1)
	countDrain(run, nil, events, 2, at(0))
	want := map[string]float64{
		"create pods/eviction": 2, "get pods": 1, "get (no resource)": 2, "list pods": 1, "watch pods": 1, "patch nodes": 1, "delete nodes": 1,
		"watch poddisruptionbudgets": 1,
	}
	if diff := cmp.Diff(want, run.Requests["drain"]); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got := run.Figures["requests/pod"]; got != 5 {
		t.Errorf("%v requests for each of 2 pods, want 5", got)
	}
}

func TestADuplicateIsAnEvictionAskedForAgainThatWasNotRefused(t *testing.T) {
	tests := []struct {
		name          string
		events        cluster.AuditEvents
		total, perPod int
	}{
		{name: "each pod once", events: cluster.AuditEvents{eviction(0, "a", 201), eviction(1, "b", 201)}},
		{name: "refused before it was accepted", events: cluster.AuditEvents{
			eviction(0, "a", 429), eviction(1, "a", 429), eviction(2, "a", 201),
		}},
		{name: "accepted twice", events: cluster.AuditEvents{eviction(0, "a", 201), eviction(1, "a", 201)}, total: 1, perPod: 1},
		{name: "not found any more", events: cluster.AuditEvents{eviction(0, "a", 201), eviction(1, "a", 404)}, total: 1, perPod: 1},
		{name: "the answer was lost with the client", events: cluster.AuditEvents{
			eviction(0, "a", 504), eviction(1, "a", 201), eviction(2, "a", 201),
		}, total: 2, perPod: 2},
		{name: "two pods, one of them twice", events: cluster.AuditEvents{
			eviction(0, "a", 201), eviction(1, "a", 201), eviction(2, "a", 201), eviction(0, "b", 201), eviction(3, "b", 201),
		}, total: 3, perPod: 2},
		{name: "written in another order than received", events: cluster.AuditEvents{eviction(1, "a", 201), eviction(0, "a", 429)}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			total, perPod := duplicates(tc.events)
			if total != tc.total || perPod != tc.perPod {
				t.Errorf("duplicates = %d, %d of one pod, want %d, %d", total, perPod, tc.total, tc.perPod)
			}
		})
	}
}

func TestReactionIsFromTheBudgetsStatusToTheFirstAcceptedEviction(t *testing.T) {
	all := cluster.AuditEvents{
		statusOf(10, "b"),    // while it was closed
		statusOf(1200, "b2"), // another budget's
		statusOf(1300, "b"), statusOf(1400, "b"),
	}
	tests := []struct {
		name string
		own  cluster.AuditEvents
		want time.Duration
		ok   bool
	}{
		{name: "refusals and what was accepted before do not count", ok: true, want: 200 * time.Millisecond, own: cluster.AuditEvents{
			eviction(5, "x", 201), eviction(1350, "x", 429), eviction(1600, "y", 201), eviction(1500, "x", 201),
		}},
		{name: "received before the status was written", ok: true, own: cluster.AuditEvents{eviction(1299, "x", 201)}},
		{name: "no eviction", own: cluster.AuditEvents{eviction(1350, "x", 429)}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := reaction(all, tc.own, "b", at(1000))
			if got != tc.want || ok != tc.ok {
				t.Errorf("reaction = %s, %t, want %s, %t", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func TestFiguresComeFromTheEventsOfTheArm(t *testing.T) {
	run := measure.NewRun("1", arm.Ours, 1)
	countDrain(run,
		cluster.AuditEvents{request("watch", "", "nodes"), request("watch", "policy", "poddisruptionbudgets")},
		cluster.AuditEvents{
			request("patch", "", "nodes"), eviction(100, "a", 201), eviction(200, "b", 429), eviction(2500, "b", 201), eviction(2600, "b", 429),
		}, 2, at(0),
	)
	want := measure.Figures{
		"drain writes": 5, "drain reads": 0, "drain watches": 0, "drain conflicts": 0, "requests/pod": 2.5, "standing": 2,
		"refused with 429": 2, "duplicates": 1, "duplicates of one pod": 1, "last eviction": 2.5,
	}
	if diff := cmp.Diff(want, run.Figures); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
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
		require.Equal(t, arm.Ours, s.arms[0])
		require.False(t, s.budget == closedBudget && s.script == nil, "the budget of scenario %d never opens", s.number)
	}
}
