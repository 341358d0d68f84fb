package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/drain"
)

// Times at which a pod goes, as a plan knows them.
const (
	whenNow   = "now"
	whenLater = "later"       // when something has changed that will change by itself
	whenGoing = "terminating" // already
	whenNever = "never"       // a person has to change something before
	whenStays = "stays"       // it does not go, and the drain does not wait for it

	pageNames = 3 // pods that a group names
	allNames  = math.MaxInt
)

// report is a plan for people.
type report struct {
	nodes []*corev1.Node
	plan  drain.Plan
	never map[drain.PodRef]drain.Reason // pods that never go, and why
	// obstacles are not removed by waiting. One that stands keeps the drain from ever ending.
	obstacles []drain.Obstacle
	stands    func(drain.Reason) bool
}

// plan shows what a drain would do and changes nothing.
func (s *session) plan(ctx context.Context) int {
	snap, err := s.read(ctx)
	if err != nil {
		return s.fail(ctx, err)
	}
	r := s.judge(snap)
	text := r.text() + "Nothing was changed. To drain: the same command with run in place of plan.\n"
	if r.blocked() {
		text = r.text() + "Nothing was changed. This drain would not end: see what is in the way. To start it all the same: run --wait.\n"
	}
	if _, err = io.WriteString(s.stdout, text); err == nil && r.blocked() {
		return exitBlocked
	}
	return s.fail(ctx, err)
}

// judge plans a drain of all Nodes, with the flags' rules and policy at this moment.
func (s *session) judge(snap *snapshot) *report {
	now := s.now()
	nodes := slices.Clone(snap.pods)
	for i := range nodes {
		last := s.policyOf().Rule(drain.Situation{Now: now, StartedAt: now, Node: snap.nodes[i]})
		nodes[i].Rules = append(s.rulesOf(s.now), last)
	}
	plan := drain.Planner{}.Plan(nodes, drain.Facts{Now: now, Budgets: snap.budgets})
	r := &report{
		nodes: snap.nodes, plan: plan, obstacles: plan.Permanent(pageNames), stands: s.stands, never: map[drain.PodRef]drain.Reason{},
	}
	for _, ob := range plan.Permanent(allNames) {
		for _, pod := range ob.Pods {
			if s.stands(ob.Reason) {
				r.never[pod] = ob.Reason
			}
		}
	}
	return r
}

// blocked reports whether an obstacle stands: the exit code is 3, and run refuses without --wait.
func (r *report) blocked() bool {
	return slices.ContainsFunc(r.obstacles, func(ob drain.Obstacle) bool { return r.stands(ob.Reason) })
}

// when returns when a pod goes, and why not now.
func (r *report) when(d *drain.Decision) (when string, why drain.Reason) {
	why, never := r.never[drain.RefOf(d.Pod)]
	switch {
	case never:
		return whenNever, why
	case d.Action == drain.Ignore:
		return whenStays, d.Reason
	case d.Action == drain.Evict || d.Action == drain.Delete:
		return whenNow, d.Reason
	case d.Pod.DeletionTimestamp != nil:
		return whenGoing, d.Reason
	}
	return whenLater, d.Reason
}

// counts returns the number of pods of a Node by when they go, and those that have to go.
func (r *report) counts(node string) (counts map[string]int, leave int) {
	counts = map[string]int{}
	for i := range r.plan.Decisions {
		if d := &r.plan.Decisions[i]; d.Node == node {
			when, _ := r.when(d)
			counts[when]++
			leave++
		}
	}
	return counts, leave - counts[whenStays]
}

func (r *report) text() string {
	var b strings.Builder
	for _, node := range r.nodes {
		r.nodeText(&b, node)
	}
	b.WriteString(r.obstacleText())
	title := "Held for now:\n"
	for _, blocker := range r.plan.Blockers(pageNames) {
		if !slices.ContainsFunc(r.obstacles, func(ob drain.Obstacle) bool { return ob.Key() == blocker.Key() }) {
			fmt.Fprintf(&b, "%s  %s: %s\n", title, blocker.Node, groupText(blocker.Pods, blocker.Count, blocker.Message))
			title = ""
		}
	}
	for _, text := range r.warnings() {
		fmt.Fprintf(&b, "Warning: %s\n", text)
	}
	return b.String()
}

// warnings are what is lost.
func (r *report) warnings() []string {
	var lines []string
	for _, w := range r.plan.Warnings(pageNames) {
		lines = append(lines, w.Node+": "+groupText(w.Pods, w.Count, w.Message))
	}
	return lines
}

func (r *report) nodeText(b *strings.Builder, node *corev1.Node) {
	counts, leave := r.counts(node.Name)
	fmt.Fprintf(b, "%s: %s to go", node.Name, count(leave, "pod", "pods"))
	for _, when := range []string{whenNow, whenLater, whenGoing, whenNever, whenStays} {
		if counts[when] > 0 {
			fmt.Fprintf(b, ", %d %s", counts[when], when)
		}
	}
	b.WriteString("\n")
	if node.Spec.Unschedulable {
		b.WriteString("  It is cordoned already.\n")
	}
	if since, silent := drain.UnreachableSince(node); silent {
		fmt.Fprintf(b, "  It has not answered since %s: its pods cannot end. See --skip-wait-for-delete-timeout.\n",
			since.UTC().Format(time.RFC3339))
	}
	if len(counts) == 0 {
		return
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\n  POD\tACTION\tWHEN\tBUDGETS\tREASON")
	for i := range r.plan.Decisions {
		if d := &r.plan.Decisions[i]; d.Node == node.Name {
			when, why := r.when(d)
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", drain.RefOf(d.Pod), strings.ToLower(d.Intended.String()), when, budgetNames(d.Budgets), why)
		}
	}
	_ = w.Flush() // a buffer does not fail
	b.WriteString(table.String() + "\n")
}

func (r *report) obstacleText() string {
	var b strings.Builder
	for i := range r.obstacles {
		ob, title := &r.obstacles[i], "May stay in the way"
		if r.stands(ob.Reason) {
			title = "In the way for good"
		}
		fmt.Fprintf(&b, "%s: %s: %s\n  what helps: %s\n", title, ob.Node, groupText(ob.Pods, ob.Count, ob.Message), oneLine(remedyOf(ob)))
	}
	return b.String()
}

// groupText names the pods of a group, and what the group is about.
func groupText(pods []drain.PodRef, all int, message string) string {
	names := make([]string, 0, len(pods))
	for _, pod := range pods {
		names = append(names, pod.String())
	}
	text := strings.Join(names, ", ")
	if more := all - len(pods); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ": " + oneLine(message)
}

func budgetNames(of []types.NamespacedName) string {
	if len(of) == 0 {
		return "-"
	}
	names := make([]string, 0, len(of))
	for _, name := range of {
		names = append(names, name.String())
	}
	return strings.Join(names, ",")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
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
