package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/machinist-dev/machinist/drain"
)

// Times at which a pod goes, as a plan knows them.
const (
	whenNow   = "now"
	whenLater = "later"       // when something has changed that will change by itself
	whenGoing = "terminating" // already
	whenNever = "never"       // a person has to change something before
	whenStays = "stays"       // it does not go, and the drain does not wait for it
)

const pageNames = 3 // pods that a group names

// report is a plan for people, and with -o json for programs.
type report struct {
	Nodes    []nodeReport
	InTheWay []drain.Blocker // what waiting does not remove
	Held     []drain.Blocker  // for now
	Warnings []drain.Blocker  // what is lost
	Blocked  bool             // an obstacle keeps the drain from ever ending

	plan   drain.Plan
	stands func(drain.Reason) bool
}

type nodeReport struct {
	Name     string
	Cordoned bool
	// SilentSince is since when the kubelet has not answered.
	SilentSince *time.Time `json:",omitempty"`
	ToGo        int
	Pods        []podReport
}

type podReport struct {
	Pod, Action, When string
	Budgets           []string
	Reason            drain.Reason
}

// plan shows what a drain would do and changes nothing.
func (s *session) plan(ctx context.Context) int {
	snap, err := s.read(ctx)
	if err != nil {
		return s.fail(ctx, err)
	}
	r := s.judge(snap)
	if s.output == outputJSON {
		err = json.NewEncoder(s.stdout).Encode(r)
	} else {
		text := "Nothing was changed. To drain: the same command with run in place of plan.\n"
		if r.Blocked {
			text = "Nothing was changed. This drain would not end: see what is in the way. To start it all the same: run --wait.\n"
		}
		_, err = io.WriteString(s.stdout, r.text()+text)
	}
	if err == nil && r.Blocked {
		return exitBlocked
	}
	return s.fail(ctx, err)
}

// judge plans a drain of all Nodes, with the flags' rules and policy at this moment.
func (s *session) judge(snap *snapshot) *report {
	now := s.now()
	pods := slices.Clone(snap.pods)
	for i := range pods {
		last := s.policyOf().Rule(drain.Situation{Now: now, StartedAt: now, Node: snap.nodes[i]})
		pods[i].Rules = append(s.rulesOf(s.now), last)
	}
	r := &report{plan: drain.Planner{}.Plan(pods, drain.Facts{Now: now, Budgets: snap.budgets}), stands: s.stands}
	never, inTheWay := map[drain.PodRef]drain.Reason{}, map[string]bool{}
	for _, ob := range r.plan.Permanent(math.MaxInt) {
		inTheWay[ob.Key()] = true
		for _, pod := range ob.Pods {
			if s.stands(ob.Reason) {
				r.Blocked, never[pod] = true, ob.Reason
			}
		}
		ob.Pods, ob.Remedy = ob.Pods[:min(len(ob.Pods), pageNames)], remedyOf(&ob)
		r.InTheWay = append(r.InTheWay, ob)
	}
	r.Held = slices.DeleteFunc(r.plan.Blockers(pageNames), func(b drain.Blocker) bool { return inTheWay[b.Key()] })
	r.Warnings = r.plan.Warnings(pageNames)
	for _, node := range snap.nodes {
		n := nodeReport{Name: node.Name, Cordoned: node.Spec.Unschedulable}
		if since, silent := drain.UnreachableSince(node); silent {
			n.SilentSince = &since
		}
		for i := range r.plan.Decisions {
			if d := &r.plan.Decisions[i]; d.Node == node.Name {
				n.add(d, never)
			}
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

func (n *nodeReport) add(d *drain.Decision, never map[drain.PodRef]drain.Reason) {
	p := podReport{Pod: drain.RefOf(d.Pod).String(), Action: strings.ToLower(d.Intended.String()), When: whenLater, Reason: d.Reason}
	why, is := never[drain.RefOf(d.Pod)]
	switch {
	case is:
		p.When, p.Reason = whenNever, why
	case d.Action == drain.Ignore:
		p.When = whenStays
	case d.Action == drain.Evict || d.Action == drain.Delete:
		p.When = whenNow
	case d.Pod.DeletionTimestamp != nil:
		p.When = whenGoing
	}
	if p.When != whenStays {
		n.ToGo++
	}
	for _, name := range d.Budgets {
		p.Budgets = append(p.Budgets, name.String())
	}
	n.Pods = append(n.Pods, p)
}

// textOf names the pods of a blocker, and what it is about.
func textOf(b *drain.Blocker) string {
	names := make([]string, 0, len(b.Pods))
	for _, pod := range b.Pods {
		names = append(names, pod.String())
	}
	text := strings.Join(names, ", ")
	if more := b.Count - len(b.Pods); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return strings.TrimPrefix(text+": "+oneLine(b.Message), ": ")
}

func (r *report) text() string {
	var b strings.Builder
	for i := range r.Nodes {
		r.Nodes[i].text(&b)
	}
	b.WriteString(r.obstacles())
	for i := range r.Held {
		fmt.Fprintf(&b, "Held for now: %s: %s\n", r.Held[i].Node, textOf(&r.Held[i]))
	}
	for i := range r.Warnings {
		fmt.Fprintf(&b, "Warning: %s: %s\n", r.Warnings[i].Node, textOf(&r.Warnings[i]))
	}
	return b.String()
}

func (r *report) obstacles() string {
	var b strings.Builder
	for i := range r.InTheWay {
		ob, title := &r.InTheWay[i], "May stay in the way"
		if r.stands(ob.Reason) {
			title = "In the way for good"
		}
		fmt.Fprintf(&b, "%s: %s: %s\n  what helps: %s\n", title, ob.Node, textOf(ob), oneLine(ob.Remedy))
	}
	return b.String()
}

func (n *nodeReport) text(b *strings.Builder) {
	counts := map[string]int{}
	for _, p := range n.Pods {
		counts[p.When]++
	}
	fmt.Fprintf(b, "%s: %s to go", n.Name, count(n.ToGo, "pod"))
	for _, when := range []string{whenNow, whenLater, whenGoing, whenNever, whenStays} {
		if counts[when] > 0 {
			fmt.Fprintf(b, ", %d %s", counts[when], when)
		}
	}
	b.WriteString("\n")
	if n.Cordoned {
		b.WriteString("  It is cordoned already.\n")
	}
	if n.SilentSince != nil {
		fmt.Fprintf(b, "  It has not answered since %s: its pods cannot end. See --skip-wait-for-delete-timeout.\n",
			n.SilentSince.UTC().Format(time.RFC3339))
	}
	if len(n.Pods) == 0 {
		return
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\n  POD\tACTION\tWHEN\tBUDGETS\tREASON")
	for _, p := range n.Pods {
		budgets := strings.Join(p.Budgets, ",")
		if budgets == "" {
			budgets = "-"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", p.Pod, p.Action, p.When, budgets, p.Reason)
	}
	_ = w.Flush() // a buffer does not fail
	b.WriteString(table.String() + "\n")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine makes a text of the cluster fit for a line of a terminal.
func oneLine(text string) string { return printable(strings.Join(strings.Fields(text), " ")) }

// printable takes away what could steer a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return -1
		}
		return r
	}, text)
}
