package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/examples/command"
)

// progressOf is what is known of a Node's drain.
type progressOf struct {
	name    string
	planned int // pods that had to go at the start
	left    int
	blocked int
	state   string
	stuck   map[string]bool // the keys of blockers that were printed
}

// follower prints what happens to the Nodes. It is safe for concurrent use.
type follower struct {
	now   func() time.Time
	start time.Time

	mu    sync.Mutex
	nodes []*progressOf
	view  *command.Progress
}

func newFollower(out io.Writer, plan *report, now func() time.Time) *follower {
	f := &follower{now: now, start: now(), view: command.NewProgress(out)}
	all := 0
	for _, node := range plan.nodes {
		_, leave := plan.counts(node.Name)
		all += leave
		f.nodes = append(f.nodes, &progressOf{name: node.Name, planned: leave, left: leave, state: "waiting", stuck: map[string]bool{}})
	}
	f.line(fmt.Sprintf("draining %s: %s to go (Ctrl-C stops, the same command resumes)", count(len(f.nodes), "Node", "Nodes"),
		count(all, "pod", "pods")))
	for _, text := range plan.warnings() {
		f.line("warning: " + text)
	}
	return f
}

// line prints a line. f.mu is held, or nothing runs yet.
func (f *follower) line(text string) {
	f.view.Line(fmt.Sprintf("%6.1fs %s", f.now().Sub(f.start).Seconds(), oneLine(text)))
}

// told prints what the API server has accepted.
func (f *follower) told(what string, pod runner.PodRef, err error) error {
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line(what + " " + pod.String())
	return nil
}

func (f *follower) node(name string) *progressOf {
	for _, n := range f.nodes {
		if n.name == name {
			return n
		}
	}
	return &progressOf{name: name, stuck: map[string]bool{}} // only Nodes of the plan are drained
}

// progress takes the result of the runner for a Node.
func (f *follower) progress(r runner.NodeResult) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.node(r.Node)
	if r.Done || r.Counts.Total > 0 { // an empty result is of a look at pods that are not known yet
		n.left, n.blocked = r.Counts.Total-r.Counts.Ignored, r.Counts.Blocked
	}
	n.state = stateOf(r)
	switch {
	case r.Ended && r.Done:
		f.line(n.name + ": drained")
	case r.Ended && n.state == "failed":
		f.line(n.name + ": failed: " + r.Err.Error())
	case !r.Ended && r.Err != nil:
		f.line(n.name + ": trying again: " + r.Err.Error())
	}
	for i := range r.Blockers {
		if b := &r.Blockers[i]; !n.stuck[b.Key()] { // what a budget holds comes and goes: one line is enough
			n.stuck[b.Key()] = true
			f.line(n.name + ": blocked: " + groupText(b.Pods, b.Count, b.Message))
		}
	}
	f.view.Show(f.status())
}

func stateOf(r runner.NodeResult) string {
	switch {
	case !r.Ended:
		return "draining"
	case r.Done:
		return "drained"
	case errors.Is(r.Err, context.Canceled), errors.Is(r.Err, runner.ErrOutOfTime):
		return "stopped"
	}
	return "failed"
}

// status is one line about all Nodes that are at work.
func (f *follower) status() string {
	var parts []string
	for _, n := range f.nodes {
		if n.state == "draining" {
			parts = append(parts, fmt.Sprintf("%s: %d of %d pods gone, %d blocked", n.name, n.gone(), n.planned, n.blocked))
		}
	}
	return fmt.Sprintf("%6.1fs %s", f.now().Sub(f.start).Seconds(), strings.Join(parts, "; "))
}

func (n *progressOf) gone() int { return max(0, n.planned-n.left) }

// end prints what the drain leaves.
func (f *follower) end(code int, err error, results []runner.NodeResult) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view.Show("")
	switch code {
	case exitDone:
		f.view.Line(fmt.Sprintf("Drained %s in %.1fs.", count(len(f.nodes), "Node", "Nodes"), f.now().Sub(f.start).Seconds()))
		return
	case exitInterrupted:
		f.view.Line("Stopped: no further evictions are asked for. Pods that are terminating go on.")
	case exitOutOfTime:
		f.view.Line("Stopped, the time has passed: no further evictions are asked for.")
	default:
		f.view.Line("Failed: " + oneLine(err.Error()))
	}
	names := make([]string, 0, len(f.nodes))
	for _, n := range f.nodes {
		f.view.Line(fmt.Sprintf("  %s: %s, %d gone, %d left", n.name, n.state, n.gone(), n.left))
		names = append(names, n.name)
	}
	for i := range results {
		for _, b := range results[i].Blockers {
			f.view.Line("  " + b.Node + ": blocked: " + groupText(b.Pods, b.Count, b.Message))
		}
	}
	f.view.Line("To go on: the same command again.")
	f.view.Line("To give up and let pods onto the Nodes again: drainctl uncordon " + strings.Join(names, " "))
}

// telling prints what the API server has accepted.
type telling struct {
	runner.Evictor
	*follower
}

// Evict implements runner.Evictor.
func (t telling) Evict(ctx context.Context, pod runner.PodRef, grace *int64) error {
	return t.told("evicting", pod, t.Evictor.Evict(ctx, pod, grace))
}

// Delete implements runner.Evictor.
func (t telling) Delete(ctx context.Context, pod runner.PodRef, grace *int64) error {
	return t.told("deleting", pod, t.Evictor.Delete(ctx, pod, grace))
}
