package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// requests are an arm's requests by kind.
type requests struct {
	Evict int `json:"evict"`
	Get   int `json:"get"`
	List  int `json:"list"`
	Watch int `json:"watch"`
	Patch int `json:"patch"`
	Other int `json:"other"`
}

func (r requests) total() int { return r.Evict + r.Get + r.List + r.Watch + r.Patch + r.Other }

// figures are what one drain has cost. Times are in seconds.
type figures struct {
	Pods int `json:"pods"`
	// Wall is until the arm said that its Nodes are drained.
	Wall float64 `json:"wallSeconds"`
	// Left counts the pods that were still there when the arm was given up; Wall is the limit then.
	Left int `json:"podsLeft,omitempty"`
	// LastEviction is until the last eviction was accepted, PodsGone until the last pod was gone: together with Wall they
	// say where the time went.
	LastEviction float64 `json:"lastEvictionSeconds"`
	PodsGone     float64 `json:"podsGoneSeconds"`
	// Reaction is between the write that opened the budget's status and the next accepted eviction; nil where no budget opens.
	Reaction *float64 `json:"reactionSeconds,omitempty"`

	Requests requests `json:"requests"`
	PerPod   float64  `json:"requestsPerPod"`
	// Standing are the requests that an operator makes once in its life, before the drain.
	Standing int `json:"standingRequests"`

	TooMany int `json:"tooManyRequests"` // evictions answered with 429
	// WrongNode counts evicted pods of Nodes that are not drained.
	WrongNode int `json:"wrongNodeEvictions"`
	// Duplicates are evictions asked for again although the same pod's was not refused; MaxDuplicates is how many of one pod.
	Duplicates    int `json:"duplicatePosts"`
	MaxDuplicates int `json:"maxDuplicatePostsPerPod"`
}

// wall is Wall for people: ">" says that the arm was given up.
func (f *figures) wall() string {
	if f.Left > 0 {
		return fmt.Sprintf(">%.1fs", f.Wall)
	}
	return seconds(f.Wall)
}

func seconds(s float64) string { return fmt.Sprintf("%.1fs", s) }

// countedResources are those that a drain is about. What Cluster API does with its own objects, and events, is not counted.
func countedResources() []string {
	return []string{"pods", "nodes", "poddisruptionbudgets", "daemonsets", "persistentvolumes", "persistentvolumeclaims",
		"volumeattachments", "namespaces"}
}

// isCounted says whether a request belongs to a drain: the resources above, and discovery.
func isCounted(e cluster.AuditEvent) bool {
	if e.Resource == "" {
		return strings.HasPrefix(e.URI, "/api")
	}
	return slices.Contains(countedResources(), e.Resource)
}

func isEviction(e cluster.AuditEvent) bool {
	return e.Resource == "pods" && e.Subresource == "eviction" && e.Verb == "create" && !e.DryRun
}

func isAccepted(e cluster.AuditEvent) bool { return isEviction(e) && e.Code == http.StatusCreated }

func countRequests(events cluster.AuditEvents) requests {
	var r requests
	for _, e := range events {
		switch {
		case !isCounted(e):
		case isEviction(e):
			r.Evict++
		case e.Verb == "get":
			r.Get++
		case e.Verb == "list":
			r.List++
		case e.Verb == "watch":
			r.Watch++
		case e.Verb == "patch":
			r.Patch++
		default:
			r.Other++
		}
	}
	return r
}

// duplicates counts the evictions of each pod that were asked for again although an earlier one was not refused by a budget or
// by a busy server: it was accepted, or the client that asked was killed before it heard. The order is that in which the API
// server received them.
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

// fromEvents fills in everything that the audit log knows. standing and own are the arm's requests before and during the drain.
func (f *figures) fromEvents(standing, own cluster.AuditEvents, start time.Time) {
	f.Requests = countRequests(own)
	f.Standing = countRequests(standing).total()
	f.PerPod = float64(f.Requests.total()) / float64(max(1, f.Pods))
	f.TooMany = len(own.Where(func(e cluster.AuditEvent) bool {
		return isEviction(e) && e.Code == http.StatusTooManyRequests
	}))
	f.Duplicates, f.MaxDuplicates = duplicates(own)
	if last := lastAccepted(own); !last.IsZero() {
		f.LastEviction = last.Sub(start).Seconds()
	}
}
