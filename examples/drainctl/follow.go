package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/runner"
)

// What can happen during a drain.
const (
	eventPlanned   = "Planned"
	eventCordoned  = "Cordoned"
	eventEvicted   = "Evicted" // the API server has accepted; the pod is terminating
	eventDeleted   = "Deleted" // the same, past all budgets
	eventProgress  = "Progress"
	eventTrouble   = "Trouble" // something failed and is tried again
	eventDrained   = "Drained"
	eventDetaching = "Detaching" // drained, and volumes are still attached
	eventDetached  = "Detached"
	eventStopped   = "Stopped" // by Ctrl-C or --timeout
	eventFailed    = "Failed"
	eventSummary   = "Summary"
)

// change is something new, as -o json prints it.
type change struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Node    string    `json:"node,omitempty"`
	Pod     string    `json:"pod,omitempty"`
	Message string    `json:"message,omitempty"`
	// Counts and Blockers are of a Node, with Progress and when its drain has ended.
	Counts   *countsReport   `json:"counts,omitempty"`
	Blockers []blockerReport `json:"blockers,omitempty"`
	Volumes  []string        `json:"volumes,omitempty"`
	Plan     *report         `json:"plan,omitempty"`
}

// countsReport counts pods of a Node. Left is the sum of those below it.
type countsReport struct {
	Gone        int `json:"gone"` // since the plan
	Left        int `json:"left"`
	Asked       int `json:"asked"` // about to be asked to go
	Terminating int `json:"terminating"`
	Waiting     int `json:"waiting"`
	Blocked     int `json:"blocked"`
	Stay        int `json:"stay"`
}

// States of a Node.
const (
	stateWaiting   = "waiting" // for its turn
	stateDraining  = "draining"
	stateDetaching = "detaching"
	stateDrained   = "drained"
	stateStopped   = "stopped"
	stateFailed    = "failed"
)

// progressOf is what is known of a Node's drain.
type progressOf struct {
	name         string
	state        string
	planned      int // pods that had to go at the start
	counts       countsReport
	blockers     []blockerReport
	volumes      []string
	began, ended time.Time
	err          error
	trouble      string // the last one that was reported about volumes
}

// follower records the state of all Nodes and passes changes to a view, one at a time. It is safe for concurrent use.
type follower struct {
	now   func() time.Time
	start time.Time
	homes map[types.UID]string // of the plan's pods

	mu    sync.Mutex
	nodes []*progressOf
	view  view
}

func newFollower(show view, plan *report, now func() time.Time) *follower {
	f := &follower{now: now, start: now(), homes: map[types.UID]string{}, view: show}
	for i := range plan.Nodes {
		n := &plan.Nodes[i]
		counts := countsReport{Left: n.Counts.leave(), Waiting: n.Counts.leave(), Stay: n.Counts.Stay}
		f.nodes = append(f.nodes, &progressOf{name: n.Name, state: stateWaiting, planned: counts.Left, counts: counts})
		for j := range n.Pods {
			f.homes[n.Pods[j].UID] = n.Name
		}
	}
	show.begin(f)
	return f
}

func (f *follower) node(name string) *progressOf {
	at := slices.IndexFunc(f.nodes, func(n *progressOf) bool { return n.name == name })
	return f.nodes[at] // only Nodes of the plan are drained
}

func (f *follower) tell(c change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tellLocked(c)
}

func (f *follower) tellLocked(c change) {
	c.Time = f.now()
	f.view.tell(c)
}

// keepTicking updates the view periodically until the returned function is called.
func (f *follower) keepTicking() (stop func()) {
	if f.view.every() == 0 {
		return func() {}
	}
	ticker := time.NewTicker(f.view.every())
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
				f.mu.Lock()
				f.view.tick()
				f.mu.Unlock()
			}
		}
	}()
	return func() { close(end); <-ended }
}

// progress records the result of the runner for a Node.
func (f *follower) progress(r runner.NodeResult) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.node(r.Node)
	if n.began.IsZero() {
		n.began, n.state = f.now(), stateDraining
	}
	// An empty result is of a look at pods that are not known yet.
	if r.Done || r.Counts.Total > 0 {
		n.counts = n.countsOf(r.Counts)
	}
	n.blockers = nil
	for i := range r.Blockers {
		n.blockers = append(n.blockers, blockerOf(&r.Blockers[i]))
	}
	c := change{Event: eventProgress, Node: r.Node, Message: r.Message, Blockers: n.blockers}
	switch {
	case r.Ended:
		n.ended, n.err = f.now(), r.Err
		c.Event, n.state = endOf(r)
	case r.Err != nil:
		c.Event = eventTrouble
	}
	if r.Err != nil {
		c.Message = r.Err.Error()
	}
	counts := n.counts
	c.Counts = &counts
	f.tellLocked(c)
}

func endOf(r runner.NodeResult) (event, state string) {
	switch {
	case r.Done:
		return eventDrained, stateDrained
	case errors.Is(r.Err, context.Canceled), errors.Is(r.Err, runner.ErrOutOfTime):
		return eventStopped, stateStopped
	default:
		return eventFailed, stateFailed
	}
}

func (n *progressOf) countsOf(c drain.Counts) countsReport {
	left := c.Total - c.Ignored
	return countsReport{
		Gone: max(0, n.planned-left), Left: left, Asked: c.Evictable, Terminating: c.Terminating, Waiting: c.Waiting,
		Blocked: c.Blocked, Stay: c.Ignored,
	}
}

// volumes records the result of the runner for the volumes of a drained Node.
func (f *follower) volumes(name string, r runner.VolumesResult, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.node(name)
	var attached []string
	for _, v := range r.Attached {
		attached = append(attached, volumeName(v))
	}
	if err != nil {
		f.troubleLocked(n, err)
		return
	}
	c := change{Event: eventDetaching, Node: name, Message: r.Message, Volumes: attached}
	same := n.state == stateDetaching && slices.Equal(attached, n.volumes)
	n.state, n.volumes, n.trouble = stateDetaching, attached, ""
	if r.Done {
		c.Event, n.state, n.ended = eventDetached, stateDrained, f.now()
	}
	if r.Done || !same {
		f.tellLocked(c)
	}
}

// troubleLocked reports new problems with volumes.
func (f *follower) troubleLocked(n *progressOf, err error) {
	if n.state = stateDetaching; n.trouble == err.Error() {
		return
	}
	n.trouble = err.Error()
	f.tellLocked(change{Event: eventTrouble, Node: n.name, Message: n.trouble})
}

func volumeName(v runner.VolumeRef) string {
	if v.Claim.Name != "" {
		return v.Claim.String()
	}
	if v.PV != "" {
		return v.PV
	}
	return v.Name
}

// drained returns those Nodes whose drain is done.
func (f *follower) drained(nodes []*corev1.Node) []*corev1.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool { return f.node(node.Name).state != stateDrained })
}

// evictor reports accepted evictions.
func (f *follower) evictor(inner runner.Evictor) runner.Evictor {
	return runner.EvictorFunc(func(ctx context.Context, pod runner.PodRef, opts runner.EvictOptions) error {
		err := inner.Evict(ctx, pod, opts)
		if err == nil {
			f.tell(change{Event: eventEvicted, Node: f.homes[pod.UID], Pod: pod.String()})
		}
		return err
	})
}

// deleter reports accepted deletions.
func (f *follower) deleter(inner runner.Deleter) runner.Deleter {
	return runner.DeleterFunc(func(ctx context.Context, pod runner.PodRef, opts runner.DeleteOptions) error {
		err := inner.Delete(ctx, pod, opts)
		if err == nil {
			f.tell(change{Event: eventDeleted, Node: f.homes[pod.UID], Pod: pod.String()})
		}
		return err
	})
}
