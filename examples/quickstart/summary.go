package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/fake"
)

// Outcomes of a story.
const (
	outcomeDone        = "done"
	outcomeFailed      = "failed"
	outcomeInterrupted = "interrupted"
)

// summary is the last object of -o json.
type summary struct {
	Kind    string  `json:"kind"`
	Outcome string  `json:"outcome"`
	Problem string  `json:"problem,omitempty"`
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"`

	Machines []machineSummary `json:"machines,omitempty"`
	Deletion *deletionSummary `json:"deletion,omitempty"`
	Budget   *budgetSummary   `json:"budget,omitempty"`
	Rollout  *rolloutSummary  `json:"rollout,omitempty"`
}

type machineSummary struct {
	Name string `json:"name"`
	// SecondsToRunning is the time from creation until Running and Ready; 0 if that was not reached.
	SecondsToRunning float64 `json:"secondsToRunning"`
	machineWrites
}

// machineWrites counts the write requests of the reconciler from created to Running.
type machineWrites struct {
	// ToMachine are writes of the Machine itself and of its status.
	ToMachine int `json:"writesToMachine"`
	// InAll adds those of its InfraMachine, BootstrapConfig, Node and events.
	InAll int `json:"writes"`
}

type deletionSummary struct {
	Machine string `json:"machine"`
	// DrainSeconds and Seconds are the times from the deletion request until the drain was done, and until nothing was
	// left.
	DrainSeconds float64 `json:"drainSeconds"`
	Seconds      float64 `json:"seconds"`
	// Evicted and Refused count the answers to eviction requests.
	Evicted int `json:"evicted"`
	Refused int `json:"refused"`
}

type budgetSummary struct {
	Name    string `json:"name"`
	Demands int    `json:"demands"`
	Pods    int    `json:"pods"`
	// Waits is how often the drain waited for the budget, and WaitSeconds is the total time.
	Waits       int     `json:"waits"`
	WaitSeconds float64 `json:"waitSeconds"`
	// FewestReady is the smallest number of ready pods at any moment since the Machine was deleted; Moments counts the changes
	// of pods that were looked at.
	FewestReady int  `json:"fewestReady"`
	Moments     int  `json:"moments"`
	Kept        bool `json:"kept"`
	// CanOpen is false for a budget that demands as many pods as exist, or more.
	CanOpen bool `json:"canOpen"`
}

func (s *story) summarise(err error, o options) summary {
	now := time.Now()
	sum := summary{Kind: kindSummary, Outcome: outcomeDone, Seed: o.seed, Seconds: seconds(now.Sub(s.start))}
	switch {
	case errors.Is(err, errInterrupted):
		sum.Outcome, sum.Problem = outcomeInterrupted, err.Error()
	case err != nil:
		sum.Outcome, sum.Problem = outcomeFailed, err.Error()
	}
	sum.Rollout = s.rollout
	for i, writes := range s.writes {
		name := s.script.machines[i]
		m := machineSummary{Name: name, machineWrites: writes}
		if l := s.picture.machines[name]; l != nil && !l.running.IsZero() {
			m.SecondsToRunning = seconds(l.running.Sub(l.created))
		}
		sum.Machines = append(sum.Machines, m)
	}
	if l := s.picture.machines[s.script.victim]; l != nil && !l.deleting.IsZero() {
		sum.Deletion = s.deletion(l)
		sum.Budget = s.budget(now)
	}
	return sum
}

func (s *story) deletion(l *life) *deletionSummary {
	d := &deletionSummary{Machine: s.script.victim}
	if !l.drained.IsZero() {
		d.DrainSeconds = seconds(l.drained.Sub(l.deleting))
	}
	if !l.gone.IsZero() {
		d.Seconds = seconds(l.gone.Sub(l.deleting))
	}
	for _, r := range s.world.store.Requests() {
		switch {
		case r.Subresource != "eviction":
		case r.Code >= http.StatusOK && r.Code < http.StatusMultipleChoices:
			d.Evicted++
		default:
			d.Refused++
		}
	}
	return d
}

func (s *story) budget(now time.Time) *budgetSummary {
	p, w := s.picture.promise, s.picture.waits
	w.look(false, now) // a wait that has not ended
	return &budgetSummary{
		Name: budgetName(s.picture.budget), Demands: p.demand, Pods: s.script.replicas, Waits: w.times, WaitSeconds: seconds(w.total),
		FewestReady: p.fewest, Moments: p.looks, Kept: p.given && !p.broken, CanOpen: p.demand < s.script.replicas,
	}
}

// countWrites counts what the reconciler wrote for each Machine. What belongs to a Machine bears its name here, and an event
// a name that begins with it.
func countWrites(requests []fake.Request, machines []string) []machineWrites {
	counts := make([]machineWrites, len(machines))
	for _, r := range requests {
		if r.UserAgent != userAgent || !r.IsWrite() {
			continue
		}
		name, _, _ := strings.Cut(r.Name, ".")
		at := slices.Index(machines, name)
		if at < 0 {
			continue
		}
		counts[at].InAll++
		if r.GVK.GroupKind() == fake.MachineGVK().GroupKind() {
			counts[at].ToMachine++
		}
	}
	return counts
}

func (s summary) exitCode() int {
	switch s.Outcome {
	case outcomeDone:
		return exitDone
	case outcomeInterrupted:
		return exitInterrupted
	default:
		return exitFailed
	}
}

// lines returns the summary as text.
func (s summary) lines() []string {
	out := []string{fmt.Sprintf("%s after %.1f s, seed %d.", strings.ToUpper(s.Outcome[:1])+s.Outcome[1:], s.Seconds, s.Seed)}
	if len(s.Machines) > 0 {
		out = append(out, s.machineLine())
	}
	if d := s.Deletion; d != nil && d.Seconds > 0 {
		out = append(out, fmt.Sprintf("  Machine %s: drained %.1f s after its deletion was asked for, gone after %.1f s, with its InfraMachine, "+
			"BootstrapConfig and Node.", d.Machine, d.DrainSeconds, d.Seconds))
	}
	if r := s.Rollout; r != nil && r.Seconds > 0 {
		out = append(out, r.line())
	}
	if d, b := s.Deletion, s.Budget; d != nil && b != nil {
		out = append(out, fmt.Sprintf("  Evictions: %d accepted, %d refused. The drain waited %s for PodDisruptionBudget %s, %.1f s in all.",
			d.Evicted, d.Refused, times(b.Waits), b.Name, b.WaitSeconds))
		out = append(out, b.line())
	}
	return out
}

func (s summary) machineLine() string {
	fast, slow, own, all, running := 0.0, 0.0, 0, 0, 0
	for _, m := range s.Machines {
		if m.SecondsToRunning == 0 {
			continue
		}
		if running++; running == 1 || m.SecondsToRunning < fast {
			fast = m.SecondsToRunning
		}
		slow, own, all = max(slow, m.SecondsToRunning), own+m.ToMachine, all+m.InAll
	}
	if running == 0 {
		return fmt.Sprintf("  %d Machines: none came to Running.", len(s.Machines))
	}
	n := float64(running)
	return fmt.Sprintf("  %d of %d Machines: Running %.1f to %.1f s after they were created, with %.1f writes each by the reconciler, "+
		"%.1f of them to the Machine itself.", running, len(s.Machines), fast, slow, float64(all)/n, float64(own)/n)
}

func (b *budgetSummary) line() string {
	verdict := "kept at every moment"
	switch {
	case !b.CanOpen:
		return fmt.Sprintf("  The budget wants %d of %d pods ready: it can never open.", b.Demands, b.Pods)
	case !b.Kept:
		verdict = "NOT kept"
	}
	return fmt.Sprintf("  The budget wants %d of %d pods ready and was %s: at least %d were, over %d changes of pods.",
		b.Demands, b.Pods, verdict, b.FewestReady, b.Moments)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
