package e2e_test

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// guarded are the pods that a budget counts, by the label app.
func (j *judge) guarded() map[string][]*life {
	all := map[string][]*life{}
	for _, pod := range j.all(pods) {
		app := pod.first().thing.Metadata.Labels["app"]
		if _, is := j.terms.Apps[app]; is {
			all[app] = append(all[app], pod)
		}
	}
	return all
}

// taken is when a program has begun to take a pod away; the zero time is never.
func (j *judge) taken(pod *life) time.Time {
	for _, e := range pod.evicted {
		if slices.Contains(j.terms.Managers, e.User) {
			return e.Received
		}
	}
	return time.Time{}
}

func evictsOnly(j *judge) {
	for _, pod := range j.all(pods) {
		if n, found := j.deletion(pod, j.terms.Managers); found && len(pod.evicted) == 0 {
			j.broken(pod.records[n].at, "%s is deleted without an eviction", pod.name)
		}
	}
}

func evictsOwnPods(j *judge) {
	for _, pod := range j.all(pods) {
		at := j.taken(pod)
		if at.IsZero() {
			continue
		}
		m := j.machineOn(pod.node)
		if m == nil && j.unseen(nodes, pod.node, at) {
			continue
		}
		if m == nil {
			j.broken(at, "%s is evicted from Node %s, which is that of no Machine", pod.name, pod.node)
			continue
		}
		n := m.before(func(r record) bool { return !r.thing.leaving() })
		begun := n < len(m.records) && !m.records[n].at.After(at)
		if !begun && (n == 0 || !j.mayHave(m, m.records[n-1].at, at)) {
			j.broken(at, "%s is evicted from Node %s, whose Machine %s stays", pod.name, pod.node, m.name)
		}
	}
}

// machineOn is the Machine of a Node.
func (s *story) machineOn(node string) *life {
	for _, n := range s.named[key(nodes, node)] {
		if m := s.machineOf(s.lives[types.UID(s.tokenOf(n))]); m != nil {
			return m
		}
	}
	return nil
}

// keepsBudgets counts anew what the API server allows.
func keepsBudgets(j *judge) {
	all := j.guarded()
	for app, least := range j.terms.Apps {
		for _, pod := range all[app] {
			at := j.taken(pod)
			if at.IsZero() || !j.ready(pod, at.Add(-1)) {
				continue
			}
			left := 0
			for _, other := range all[app] {
				if j.ready(other, at) {
					left++
				}
			}
			if left < least {
				j.broken(at, "%s is evicted, and %d healthy pods of %s are left of at least %d", pod.name, left, app, least)
			}
		}
	}
}

// ready reports whether a pod was ready at a time, and not being evicted.
func (j *judge) ready(pod *life, at time.Time) bool {
	for _, e := range pod.evicted {
		if !e.Received.After(at) {
			return false
		}
	}
	return j.holdsAt(pod, pod.before(func(r record) bool { return !r.at.After(at) }), at)
}

// drainsFirst judges the request that begins the end of an instance. A scheduler that is late may bind a pod to its Node after that.
func drainsFirst(j *judge) {
	on := map[string][]*life{}
	for _, all := range j.guarded() {
		for _, pod := range all {
			on[pod.node] = append(on[pod.node], pod)
		}
	}
	of := map[types.UID]*life{}
	for _, node := range j.all(nodes) {
		of[types.UID(j.tokenOf(node))] = node
	}
	for _, infra := range j.all(infraItems) {
		n, found := j.deletion(infra, j.terms.Managers)
		node := of[infra.uid]
		if !found || node == nil {
			continue
		}
		at := infra.records[n].at
		for _, pod := range on[node.name] {
			gone, removed := pod.removal()
			if pod.bound.After(at) || isLate(pod, node, at) || removed && !gone.at.After(at) || j.mayHave(pod, pod.lastBefore(at), at) {
				continue
			}
			j.broken(at, "%s is deleted, and %s is on its Node %s", infra.name, pod.name, pod.node)
		}
	}
}

// isLate reports whether a scheduler bound a pod just before a time to a Node that had been cordoned for longer than a drain waits for such
// pods. A scheduler can be late by ten seconds: an API server that has just started refuses its watches for a moment, and it makes that of
// pods again before that of Nodes.
func isLate(pod, node *life, at time.Time) bool {
	const settles = 2 * time.Second
	n := node.before(func(r record) bool { return !r.thing.Spec.Unschedulable })
	return n < len(node.records) && pod.bound.After(node.records[n].at.Add(settles)) && pod.bound.After(at.Add(-lately))
}

// lastBefore is the time of the last record before a time, of which there is one.
func (l *life) lastBefore(at time.Time) time.Time {
	return l.records[max(1, l.before(func(r record) bool { return !r.at.After(at) }))-1].at
}

// touchesOwn goes by names: everything that the deployment has made begins with its name.
func touchesOwn(j *judge) {
	for _, e := range j.events {
		if e.Code >= 300 || !slices.Contains(j.terms.users(), e.User) || e.Group == "coordination.k8s.io" || e.Resource == "events" {
			continue
		}
		name := e.Name
		for _, l := range j.named[key(e.Resource, e.Name)] {
			name = l.name
		}
		ours := name == j.terms.Deployment || strings.HasPrefix(name, j.terms.Deployment+"-")
		if e.Resource == pods {
			app := ""
			for _, l := range j.named[key(pods, e.Name)] {
				app = l.first().thing.Metadata.Labels["app"]
			}
			_, ours = j.terms.Apps[app]
		}
		if !ours && (e.Resource != machines || e.Subresource != "status") { // the status of a paused Machine says that it is paused
			j.broken(e.Received, "%s: %s", e.User, e)
		}
	}
}
