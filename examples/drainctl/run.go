package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/machinist-dev/machinist/drain/runner"
)

// run plans, refuses or cordons, and drains. An ended ctx stops it; what it leaves is printed, and can be resumed.
func (s *session) run(ctx context.Context) int {
	snap, err := s.read(ctx)
	if err != nil {
		return s.fail(ctx, err)
	}
	plan := s.judge(snap)
	if plan.Blocked && !s.wait {
		fmt.Fprintf(s.stdout, "Refused: this drain would not end, and nothing was changed.\n%s"+
			"To see all pods: plan in place of run. To start nevertheless, and wait until the obstacles are removed: --wait.\n", plan.obstacles())
		return exitBlocked
	}
	f := s.follow(plan)
	_, err = runner.Drain(ctx, s.config, runner.DrainOptions{
		Timeout: s.timeout, Rules: s.rulesOf(s.now), Progress: f.progress,
		Configure: func(cfg *runner.Config) {
			cfg.Evictor = telling{cfg.Evictor, f}
			if s.quick {
				cfg.Debounce, cfg.Settle = 5*time.Millisecond, 20*time.Millisecond
			}
		},
	}, snap.names...)
	return f.end(ctx, err)
}

// follower prints what happens to the Nodes. It is safe for concurrent use.
type follower struct {
	*session
	start time.Time
	plan  *report

	mu    sync.Mutex
	last  map[string]runner.NodeResult // by Node
	stuck map[string]bool              // the keys of blockers that were printed
}

// happening is a line of -o json.
type happening struct {
	Seconds float64 `json:"seconds"`
	Node    string  `json:"node,omitempty"`
	Event   string  `json:"event"`
	Text    string  `json:"text,omitempty"`
}

func (s *session) follow(plan *report) *follower {
	f := &follower{session: s, start: s.now(), plan: plan, last: map[string]runner.NodeResult{}, stuck: map[string]bool{}}
	all := 0
	for i := range plan.Nodes {
		all += plan.Nodes[i].ToGo
	}
	f.line("", "draining", fmt.Sprintf("%s: %s to go (Ctrl-C stops, the same command resumes)",
		count(len(plan.Nodes), "Node"), count(all, "pod")))
	for _, warning := range plan.Warnings {
		f.line(warning.Node, "warning", textOf(&warning))
	}
	return f
}

// line prints what has happened. f.mu is held, or nothing runs yet.
func (f *follower) line(node, event, text string) {
	seconds, line := f.now().Sub(f.start).Seconds(), event+" "+text
	if node != "" {
		line = strings.TrimSuffix(node+": "+event+": "+text, ": ")
	}
	line = fmt.Sprintf("%6.1fs %s", seconds, oneLine(line))
	if f.output == outputJSON {
		data, _ := json.Marshal(happening{seconds, node, event, text}) // never fails
		line = string(data)
	}
	fmt.Fprintln(f.stdout, line)
}

// progress takes the result of the runner for a Node.
func (f *follower) progress(r runner.NodeResult) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !r.Done && r.Counts.Total == 0 { // of a look at pods that are not known yet
		r.Counts = f.last[r.Node].Counts
	}
	f.last[r.Node] = r
	switch state := stateOf(&r); {
	case state == "drained":
		f.line(r.Node, state, "")
	case r.Err != nil && state != "stopped":
		f.line(r.Node, state, r.Err.Error())
	}
	for i := range r.Blockers {
		if b := &r.Blockers[i]; !f.stuck[b.Key()] { // what a budget holds comes and goes: one line is enough
			f.stuck[b.Key()] = true
			f.line(r.Node, "blocked", textOf(b))
		}
	}
}

func stateOf(r *runner.NodeResult) string {
	switch {
	case !r.Ended && r.Err != nil:
		return "trying again"
	case !r.Ended:
		return "draining"
	case r.Done:
		return "drained"
	case errors.Is(r.Err, context.Canceled), errors.Is(r.Err, runner.ErrOutOfTime):
		return "stopped"
	}
	return "failed"
}

// left returns how many pods of a Node have to go still, and how many had to at the start have gone.
func (f *follower) left(n *nodeReport) (left, gone int) {
	left = n.ToGo
	if r, known := f.last[n.Name]; r.Done || known && r.Counts.Total > 0 {
		left = r.Counts.Total - r.Counts.Ignored
	}
	return left, max(0, n.ToGo-left)
}

// end prints what the drain leaves, and returns the exit code.
func (f *follower) end(ctx context.Context, err error) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	code := exitFailed
	switch {
	case err == nil:
		f.line("", "Drained", fmt.Sprintf("%s in %.1fs.", count(len(f.plan.Nodes), "Node"), f.now().Sub(f.start).Seconds()))
		return exitDone
	case ctx.Err() != nil:
		f.line("", "Stopped", "by a signal: no further evictions are asked for. Pods that are terminating go on.")
		code = exitInterrupted
	case errors.Is(err, runner.ErrOutOfTime):
		f.line("", "Stopped", "because the time has passed: no further evictions are asked for.")
		code = exitOutOfTime
	default:
		f.line("", "Failed", "because of: "+err.Error())
	}
	var names []string
	for i := range f.plan.Nodes {
		n := &f.plan.Nodes[i]
		r := f.last[n.Name]
		left, gone := f.left(n)
		f.line(n.Name, stateOf(&r), fmt.Sprintf("%d gone, %d left", gone, left))
		for j := range r.Blockers {
			f.line(n.Name, "blocked", textOf(&r.Blockers[j]))
		}
		names = append(names, n.Name)
	}
	f.line("", "To go on", "is the same command again; to let pods onto the Nodes again, kubectl uncordon "+strings.Join(names, " "))
	return code
}

// telling prints what the API server has accepted.
type telling struct {
	runner.Evictor
	*follower
}

// Evict implements runner.Evictor.
func (t telling) Evict(ctx context.Context, pod runner.PodRef, grace *int64) error {
	return t.report("evicting", pod, t.Evictor.Evict(ctx, pod, grace))
}

// Delete implements runner.Evictor.
func (t telling) Delete(ctx context.Context, pod runner.PodRef, grace *int64) error {
	return t.report("deleting", pod, t.Evictor.Delete(ctx, pod, grace))
}

func (f *follower) report(what string, pod runner.PodRef, err error) error {
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.line("", what, pod.String())
	}
	return err
}
