package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
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
	want := requests{Evict: 2, Get: 3, List: 1, Watch: 2, Patch: 1, Other: 2}
	got := countRequests(events)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got.total() != 11 {
		t.Errorf("total %d, want 11", got.total())
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
	f := figures{Pods: 2}
	f.fromEvents(
		cluster.AuditEvents{request("watch", "", "nodes"), request("watch", "policy", "poddisruptionbudgets")},
		cluster.AuditEvents{
			request("patch", "", "nodes"), eviction(100, "a", 201), eviction(200, "b", 429), eviction(2500, "b", 201), eviction(2600, "b", 429),
		},
		at(0),
	)
	want := figures{
		Pods: 2, Requests: requests{Evict: 4, Patch: 1}, PerPod: 2.5, Standing: 2, TooMany: 2, Duplicates: 1, MaxDuplicates: 1, LastEviction: 2.5,
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func TestTheDrainOfClusterAPIEndsWhenItDeletesTheInfrastructure(t *testing.T) {
	remove := func(ms int, group, resource string) cluster.AuditEvent {
		e := request("delete", group, resource)
		e.Received = at(ms)
		return e
	}
	c := &capi{}
	got := c.ended(cluster.AuditEvents{
		remove(50, "", "pods"), remove(100, infraGVK().Group, "fakemachines"), remove(300, infraGVK().Group, "fakemachines"),
		remove(900, "", "nodes"), request("get", infraGVK().Group, "fakemachines"),
	})
	if !got.Equal(at(300)) {
		t.Errorf("ended at %s, want %s", got, at(300))
	}
	if got := c.ended(nil); !got.IsZero() {
		t.Errorf("ended at %s without events", got)
	}
}
