package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/drain/runner"
)

// How a drain can end.
const (
	outcomeDrained     = "Drained"
	outcomeRefused     = "Refused" // before the first cordon
	outcomeOutOfTime   = "OutOfTime"
	outcomeInterrupted = "Interrupted"
	outcomeFailed      = "Failed"
)

// lookAfterTimeout is for how long the last look at what a drain leaves may take. A second Ctrl-C ends it.
const lookAfterTimeout = 5 * time.Second

// summary is the end, as -o json prints it last.
type summary struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"` // always Summary
	Outcome string    `json:"outcome"`
	// ExitCode is the process's.
	ExitCode int      `json:"exitCode"`
	Seconds  float64  `json:"seconds"`
	Nodes    []ending `json:"nodes"`
	Message  string   `json:"message,omitempty"`
	// Resume and Uncordon are commands that go on or give up, when there is something to go on with.
	Resume   string `json:"resume,omitempty"`
	Uncordon string `json:"uncordon,omitempty"`
	// See is the command that shows the plan that was refused.
	See string `json:"see,omitempty"`
	// Plan is what was refused.
	Plan *report `json:"plan,omitempty"`
}

// ending is what a drain leaves of a Node. What could not be read at the end is absent.
type ending struct {
	Node        string `json:"node"`
	State       string `json:"state"`
	Gone        int    `json:"gone"`
	Left        *int   `json:"left,omitempty"`
	Terminating *int   `json:"terminating,omitempty"`
	Cordoned    *bool  `json:"cordoned,omitempty"`
	Error       string `json:"error,omitempty"`

	Blockers []blockerReport `json:"blockers,omitempty"`
	Volumes  []string        `json:"volumes,omitempty"`

	planned int // pods that had to go at the start
}

func (s *session) refusal(plan *report) summary {
	end := summary{
		Event: eventSummary, Outcome: outcomeRefused, ExitCode: exitBlocked, Plan: plan, Nodes: []ending{},
		Message: "this drain would not end, and nothing was changed", See: s.again(commandPlan), Resume: s.again(commandRun),
	}
	for i := range plan.Nodes {
		e := ending{Node: plan.Nodes[i].Name, State: stateWaiting}
		e.leaves(&plan.Nodes[i])
		end.Nodes = append(end.Nodes, e)
	}
	return end
}

// summarise says how it ended. ctx is the person's; err is of no single Node.
func (s *session) summarise(ctx context.Context, f *follower, err error) summary {
	end := summary{Event: eventSummary, Outcome: outcomeDrained, Seconds: f.now().Sub(f.start).Seconds()}
	errs := []error{err}
	for _, n := range f.nodes {
		e := ending{Node: n.name, State: n.state, planned: n.planned, Gone: n.counts.Gone, Blockers: n.blockers, Volumes: n.volumes}
		if n.err != nil && n.state == stateFailed {
			e.Error = n.err.Error()
		}
		end.Nodes = append(end.Nodes, e)
		errs = append(errs, n.err)
	}
	switch err = errors.Join(errs...); {
	case err == nil:
		end.setLeft()
		return end
	case ctx.Err() != nil:
		end.Outcome, end.ExitCode = outcomeInterrupted, exitInterrupted
	case errors.Is(err, runner.ErrOutOfTime):
		end.Outcome, end.ExitCode = outcomeOutOfTime, exitOutOfTime
		end.Message = fmt.Sprintf("%s have passed", s.timeout)
	default:
		end.Outcome, end.ExitCode = outcomeFailed, exitFailed
	}
	if errs[0] != nil && end.Outcome == outcomeFailed {
		end.Message = errs[0].Error()
	}
	s.lookBack(ctx, &end)
	return end
}

// setLeft says of drained Nodes what that means.
func (s *summary) setLeft() {
	for i := range s.Nodes {
		none, cordoned := 0, true
		s.Nodes[i].Left, s.Nodes[i].Terminating, s.Nodes[i].Cordoned = &none, &none, &cordoned
	}
}

// lookBack reads the state after the drain again, because the last result may be outdated.
func (s *session) lookBack(ctx context.Context, end *summary) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookAfterTimeout)
	defer cancel()
	left, err := s.look(ctx, end.Nodes)
	for i := range end.Nodes {
		if err == nil {
			end.Nodes[i].leaves(&left[i])
			continue
		}
		// One of them cannot be read, for example because it is gone.
		if one, err := s.look(ctx, end.Nodes[i:i+1]); err != nil {
			end.Nodes[i].Error = cmp.Or(end.Nodes[i].Error, err.Error())
		} else {
			end.Nodes[i].leaves(&one[0])
		}
	}
	end.Resume = s.again(commandRun)
	back := *s
	back.nodes = nil
	for i := range end.Nodes {
		if e := &end.Nodes[i]; e.Cordoned != nil && *e.Cordoned {
			back.nodes = append(back.nodes, e.Node)
		}
	}
	if len(back.nodes) > 0 {
		end.Uncordon = back.again(commandUncordon)
	}
}

// look plans again for some Nodes.
func (s *session) look(ctx context.Context, of []ending) ([]nodeReport, error) {
	some := *s
	some.selector, some.nodes = "", nil
	for i := range of {
		some.nodes = append(some.nodes, of[i].Node)
	}
	snap, err := some.read(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := some.judge(snap)
	if err != nil {
		return nil, err
	}
	return plan.Nodes, nil
}

func (e *ending) leaves(n *nodeReport) {
	left, going := n.Counts.leave(), n.Counts.Going
	e.Gone, e.Left, e.Terminating, e.Cordoned = max(0, e.planned-left), &left, &going, &n.Cordoned
	if left == going {
		e.Blockers = nil // what was in the way has gone since
	}
}

// finish shows the end and returns the exit code.
func (s *session) finish(f *follower, end summary) int {
	end.Time = s.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range end.Nodes {
		f.node(end.Nodes[i].Node).ends(&end.Nodes[i])
	}
	f.view.finish(end)
	return end.ExitCode
}

// ends lets a view show the result of the last look, which the summary contains too.
func (n *progressOf) ends(e *ending) {
	if e.Left == nil || n.state != stateStopped && n.state != stateFailed {
		return
	}
	n.counts = countsReport{
		Gone: e.Gone, Left: *e.Left, Terminating: *e.Terminating, Waiting: max(0, *e.Left-*e.Terminating-n.counts.Blocked),
		Blocked: min(n.counts.Blocked, *e.Left-*e.Terminating), Stay: n.counts.Stay,
	}
	n.blockers = e.Blockers
}

// fail reports an error from before the first change.
func (s *session) fail(ctx context.Context, err error) int {
	if err != nil && ctx.Err() != nil {
		s.say(errors.New("interrupted; nothing was changed"))
		return exitInterrupted
	}
	return s.code(err)
}

// lines is a summary for people.
func (s *summary) lines() []string {
	var lines []string
	switch s.Outcome {
	case outcomeRefused:
		return s.refusedLines()
	case outcomeDrained:
		return []string{fmt.Sprintf("Drained %s in %.1fs.", s.who(), s.Seconds)}
	case outcomeInterrupted:
		lines = append(lines, "Stopped: no further evictions are asked for. Pods that are terminating go on.")
	case outcomeOutOfTime:
		lines = append(lines, "Stopped, "+s.Message+": no further evictions are asked for.")
	default:
		lines = append(lines, "Failed: "+cmp.Or(oneLine(s.Message), "see the Nodes."))
	}
	for i := range s.Nodes {
		lines = append(lines, s.Nodes[i].lines()...)
	}
	lines = append(lines, "To go on: "+s.Resume)
	if s.Uncordon != "" {
		lines = append(lines, "To give up and let pods onto the Nodes again: "+s.Uncordon)
	}
	return lines
}

// who names the Nodes, or counts them if there are many.
func (s *summary) who() string {
	if len(s.Nodes) > pageNames {
		return count(len(s.Nodes), "Node", "Nodes")
	}
	names := make([]string, 0, len(s.Nodes))
	for i := range s.Nodes {
		names = append(names, s.Nodes[i].Node)
	}
	return strings.Join(names, ", ")
}

func (s *summary) refusedLines() []string {
	var b strings.Builder
	b.WriteString("Refused: " + s.Message + ".\n\n")
	s.Plan.obstacleText(&b)
	fmt.Fprintf(&b, "To see all pods: %s\nTo start nevertheless, and wait until the obstacles are removed: %s --wait", s.See, s.Resume)
	return strings.Split(b.String(), "\n")
}

func (e *ending) lines() []string {
	text := "  " + e.Node + ": " + e.State
	switch {
	case e.Left == nil:
		text += "; what is left could not be read"
	case e.State != stateDrained:
		text += fmt.Sprintf(", %d gone, %d left", e.Gone, *e.Left)
		if *e.Terminating > 0 {
			text += fmt.Sprintf(" (%d terminating)", *e.Terminating)
		}
	}
	if e.Cordoned != nil && !*e.Cordoned {
		text += ", not cordoned"
	} else if e.Cordoned != nil {
		text += ", cordoned"
	}
	lines := []string{text}
	if e.Error != "" {
		lines = append(lines, "      "+oneLine(e.Error))
	}
	for i := range e.Blockers {
		lines = append(lines, "      blocked: "+podsText(e.Blockers[i].Pods, e.Blockers[i].Count)+": "+e.Blockers[i].why())
	}
	if len(e.Volumes) > 0 {
		lines = append(lines, "      still attached: "+podsText(e.Volumes[:min(pageNames, len(e.Volumes))], len(e.Volumes)))
	}
	return lines
}

// notes are those warnings of a plan that a person should read before pods go.
func (r *report) notes() []string {
	var lines []string
	for i := range r.Warnings {
		lines = append(lines, "warning: "+r.Warnings[i].text())
	}
	for i := range r.Obstacles {
		lines = append(lines, "in the way: "+r.Obstacles[i].text())
	}
	return lines
}

// intent says what is about to be done.
func (f *follower) intent() string {
	leave, stay := 0, 0
	for _, n := range f.nodes {
		leave, stay = leave+n.planned, stay+n.counts.Stay
	}
	return fmt.Sprintf("draining %s: %s to go, %d to stay", count(len(f.nodes), "Node", "Nodes"), count(leave, "pod", "pods"), stay)
}

// again returns another command with the flags that were given, as far as it understands them.
func (o *options) again(command string) string {
	words := []string{"drainctl", command}
	for _, name := range o.nodes {
		words = append(words, quote(name))
	}
	for _, g := range o.given {
		switch {
		case slices.Contains([]string{"o", "dry-run", "print-rbac"}, g.name),
			command == commandUncordon && g.name != "kubeconfig" && g.name != "context":
		default:
			words = append(words, g.words())
		}
	}
	return strings.Join(words, " ")
}

func (g given) words() string {
	dashes := "--"
	if len(g.name) == 1 {
		dashes = "-"
	}
	switch {
	case !g.isBool:
		return dashes + g.name + " " + quote(g.value)
	case g.value == "true":
		return dashes + g.name
	default:
		return dashes + g.name + "=" + g.value
	}
}

var plain = regexp.MustCompile(`^[\w./:=,@%+-]+$`)

// quote quotes a word for a shell.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
