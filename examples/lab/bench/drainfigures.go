package bench

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// countedResources are those that a drain is about. What Cluster API does with its own objects, and events, is not counted.
func countedResources() []string {
	return []string{"pods", "nodes", "poddisruptionbudgets", "daemonsets", "persistentvolumes", "persistentvolumeclaims",
		"volumeattachments", "namespaces"}
}

// isOfADrain reports whether a request belongs to a drain: the resources above, and discovery.
func isOfADrain(e cluster.AuditEvent) bool {
	if e.Resource == "" {
		return strings.HasPrefix(e.URI, "/api")
	}
	return slices.Contains(countedResources(), e.Resource)
}

func isEviction(e cluster.AuditEvent) bool {
	return e.Resource == "pods" && e.Subresource == "eviction" && e.Verb == "create" && !e.DryRun
}

func isAccepted(e cluster.AuditEvent) bool { return isEviction(e) && e.Code == http.StatusCreated }

// duplicates counts the evictions of each pod that were asked for again although an earlier one was accepted, and not refused by a budget
// or by a busy server. The order is that in which the API server received them.
func duplicates(events cluster.AuditEvents) (total, perPod int) {
	evictions := events.Where(isEviction)
	slices.SortStableFunc(evictions, func(a, b cluster.AuditEvent) int { return a.Received.Compare(b.Received) })
	asked, again := map[string]bool{}, map[string]int{}
	for _, e := range evictions {
		pod := e.Namespace + "/" + e.Name
		if asked[pod] {
			total++
			again[pod]++
			perPod = max(perPod, again[pod])
		}
		asked[pod] = asked[pod] || e.Code != http.StatusTooManyRequests
	}
	return total, perPod
}

// lastAccepted is when the API server received the last eviction that it accepted.
func lastAccepted(events cluster.AuditEvents) time.Time {
	var last time.Time
	for _, e := range events.Where(isAccepted) {
		if e.Received.After(last) {
			last = e.Received
		}
	}
	return last
}

// reaction is how long after the first write to the budget's status since it was opened the next eviction was accepted. all
// are all events, own are those of the arm.
func reaction(all, own cluster.AuditEvents, budget string, opened time.Time) (time.Duration, bool) {
	status := earliest(all, func(e cluster.AuditEvent) bool {
		return e.Resource == "poddisruptionbudgets" && e.Subresource == "status" && e.Name == budget && !e.Received.Before(opened)
	})
	first := earliest(own, func(e cluster.AuditEvent) bool { return isAccepted(e) && !e.Received.Before(opened) })
	if status.IsZero() || first.IsZero() {
		return 0, false
	}
	return max(0, first.Sub(status)), true
}

func earliest(events cluster.AuditEvents, match func(cluster.AuditEvent) bool) time.Time {
	found := events.Where(match)
	if len(found) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(found, func(a, b cluster.AuditEvent) int { return a.Received.Compare(b.Received) }).Received
}
