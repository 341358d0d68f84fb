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
	"github.com/machinist-dev/machinist/examples/command"
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
	if err := s.checkRights(ctx); err != nil {
		return s.fail(ctx, err)
	}
	f := s.follow(plan)
	policy := s.policyOf()
	drained, err := runner.Drain(ctx, s.config, runner.DrainOptions{
		Timeout: s.timeout, Rules: s.rulesOf(s.now), Policy: &policy, Progress: f.progress,
		Configure: func(cfg *runner.Config) {
			cfg.Evictor = telling{cfg.Evictor, f}
			if s.quick {
				cfg.Debounce, cfg.Settle = 5*time.Millisecond, 20*time.Millisecond
			}
		},
	}, namesOf(snap.nodes)...)
	code := exitDone
	switch {
	case err == nil:
	case ctx.Err() != nil:
		code = exitInterrupted
	case errors.Is(err, runner.ErrOutOfTime):
		code = exitOutOfTime
	default:
		code = exitFailed
	}
	f.end(code, err, drained)
	return code
}

// progressOf is what is known of a Node's drain.
type progressOf struct {
	name                   string
	planned, left, blocked int // pods that had to go at the start, and those of now
	state                  string
	stuck                  map[string]bool // the keys of blockers that were printed
}

func (n *progressOf) gone() int { return max(0, n.planned-n.left) }

// follower prints what happens to the Nodes. It is safe for concurrent use.
type follower struct {
	now   func() time.Time
	start time.Time
	json  bool

	mu    sync.Mutex
	nodes []*progressOf
	view  *command.Progress
}

// happening is a line of -o json.
type happening struct {
	Seconds float64 `json:"seconds"`
	Node    string  `json:"node,omitempty"`
	Event   string  `json:"event"`
	Text    string  `json:"text,omitempty"`
}

func (s *session) follow(plan *report) *follower {
	f := &follower{now: s.now, start: s.now(), view: command.NewProgress(s.stdout), json: s.output == outputJSON}
	all := 0
	for i := range plan.Nodes {
		n := &plan.Nodes[i]
		all += n.ToGo
		f.nodes = append(f.nodes, &progressOf{name: n.Name, planned: n.ToGo, left: n.ToGo, state: "waiting", stuck: map[string]bool{}})
	}
	f.line("", "draining", fmt.Sprintf("draining %s: %s to go (Ctrl-C stops, the same command resumes)", count(len(f.nodes), "Node"),
		count(all, "pod")))
	for _, w := range plan.Warnings {
		f.line(w.Node, "warning", "warning: "+w.Node+": "+w.Text)
	}
	return f
}

func (f *follower) seconds() float64 { return f.now().Sub(f.start).Seconds() }

// line prints what has happened. f.mu is held, or nothing runs yet.
func (f *follower) line(node, event, text string) {
	if f.json {
		data, _ := json.Marshal(happening{f.seconds(), node, event, text}) // never fails
		f.view.Line(string(data))
		return
	}
	f.view.Line(fmt.Sprintf("%6.1fs %s", f.seconds(), oneLine(text)))
}

// progress takes the result of the runner for a Node.
func (f *follower) progress(r runner.NodeResult) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.name == r.Node {
			f.advance(n, &r)
		}
	}
	if !f.json {
		f.view.Show(f.status())
	}
}

func (f *follower) advance(n *progressOf, r *runner.NodeResult) {
	if r.Done || r.Counts.Total > 0 { // an empty result is of a look at pods that are not known yet
		n.left, n.blocked = r.Counts.Total-r.Counts.Ignored, r.Counts.Blocked
	}
	switch n.state = stateOf(r); {
	case r.Ended && r.Done:
		f.line(n.name, "drained", n.name+": drained")
	case r.Ended && n.state == "failed":
		f.line(n.name, "failed", n.name+": failed: "+r.Err.Error())
	case !r.Ended && r.Err != nil:
		f.line(n.name, "retrying", n.name+": trying again: "+r.Err.Error())
	}
	for i := range r.Blockers {
		if b := &r.Blockers[i]; !n.stuck[b.Key()] { // what a budget holds comes and goes: one line is enough
			n.stuck[b.Key()] = true
			f.line(n.name, "blocked", n.name+": blocked: "+groupOf(b).Text)
		}
	}
}

func stateOf(r *runner.NodeResult) string {
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
	return fmt.Sprintf("%6.1fs %s", f.seconds(), strings.Join(parts, "; "))
}

// end prints what the drain leaves.
func (f *follower) end(code int, err error, results []runner.NodeResult) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view.Show("")
	say := f.view.Line
	if f.json {
		say = func(text string) { f.line("", "end", strings.TrimSpace(text)) }
	}
	switch code {
	case exitDone:
		say(fmt.Sprintf("Drained %s in %.1fs.", count(len(f.nodes), "Node"), f.seconds()))
		return
	case exitInterrupted:
		say("Stopped: no further evictions are asked for. Pods that are terminating go on.")
	case exitOutOfTime:
		say("Stopped, the time has passed: no further evictions are asked for.")
	default:
		say("Failed: " + oneLine(err.Error()))
	}
	names := make([]string, 0, len(f.nodes))
	for _, n := range f.nodes {
		say(fmt.Sprintf("  %s: %s, %d gone, %d left", n.name, n.state, n.gone(), n.left))
		names = append(names, n.name)
	}
	for i := range results {
		for j := range results[i].Blockers {
			say("  " + results[i].Node + ": blocked: " + groupOf(&results[i].Blockers[j]).Text)
		}
	}
	say("To go on: the same command again.")
	say("To give up and let pods onto the Nodes again: drainctl uncordon " + strings.Join(names, " "))
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

func (f *follower) told(what string, pod runner.PodRef, err error) error {
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.line("", what, what+" "+pod.String())
	}
	return err
}
