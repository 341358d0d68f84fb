package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/drain"
)

// Times at which a pod goes, as a plan has them.
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
	Held     []drain.Blocker // for now
	Warnings []drain.Blocker // what is lost
	Blocked  bool            // an obstacle keeps the drain from ever ending
}

type nodeReport struct {
	*corev1.Node `json:"-"`

	Name string
	ToGo int
	Pods []podReport
}

type podReport struct {
	Pod, Action, When, Budgets string
	Reason                     drain.Reason
}

// plan shows what a drain would do and changes nothing.
func (s *session) plan(ctx context.Context) int {
	snap, err := s.read(ctx)
	if err != nil {
		return s.fail(ctx, err)
	}
	r := s.judge(snap)
	text := "Nothing was changed. To drain: the same command with run in place of plan.\n"
	if r.Blocked {
		text = "Nothing was changed. This drain would not end: see what is in the way. To start it all the same: run --wait.\n"
	}
	if s.output == outputJSON {
		err = json.NewEncoder(s.stdout).Encode(r)
	} else {
		_, err = io.WriteString(s.stdout, r.text()+text)
	}
	if err == nil && r.Blocked {
		return exitBlocked
	}
	return s.fail(ctx, err)
}

// judge plans a drain of all Nodes, with the flags' rules at this moment.
func (s *session) judge(snap *snapshot) *report {
	plan := drain.Planner{Rules: s.rulesOf(s.now)}.Plan(snap.pods, drain.Facts{Budgets: snap.budgets})
	r, never := &report{Warnings: plan.Warnings()}, map[drain.PodRef]drain.Reason{}
	for _, ob := range plan.Permanent() {
		for _, pod := range ob.Pods {
			if isPermanent(&ob) {
				r.Blocked, never[pod] = true, ob.Reason
			}
		}
		ob.Pods = ob.Pods[:min(len(ob.Pods), pageNames)]
		r.InTheWay = append(r.InTheWay, ob)
	}
	r.Held = slices.DeleteFunc(plan.Blockers(), func(held drain.Blocker) bool {
		return slices.ContainsFunc(r.InTheWay, func(ob drain.Blocker) bool { return ob.Key() == held.Key() })
	})
	for _, node := range snap.nodes {
		n := nodeReport{Node: node, Name: node.Name}
		for i := range plan.Decisions {
			if d := &plan.Decisions[i]; d.Node == node.Name {
				n.add(d, never)
			}
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

// isPermanent reports whether an obstacle keeps the drain from ever ending under these flags, unless a webhook acts on the evictions.
// A finalizer does not: its controller may be about to remove it, and a plan cannot know.
func isPermanent(ob *drain.Blocker) bool { return ob.Reason != drain.ReasonFinalizer }

func (n *nodeReport) add(d *drain.Decision, never map[drain.PodRef]drain.Reason) {
	p := podReport{Pod: drain.RefOf(d.Pod).String(), Action: strings.ToLower(string(d.Intended)), When: whenLater, Reason: d.Reason}
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
	p.Budgets = cmp.Or(named(d.Budgets, ","), "-")
	n.Pods = append(n.Pods, p)
}

// named joins names, which have no spaces.
func named[T fmt.Stringer](all []T, by string) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(all), "[]"), " ", by)
}

// textOf names the pods of a blocker, and what it is about.
func textOf(b *drain.Blocker) string {
	text := named(b.Pods, ", ")
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
	for _, held := range r.Held {
		fmt.Fprintf(&b, "Held for now: %s: %s\n", held.Node, textOf(&held))
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "Warning: %s: %s\n", warning.Node, textOf(&warning))
	}
	return b.String()
}

func (r *report) obstacles() string {
	var b strings.Builder
	for _, ob := range r.InTheWay {
		title := "May stay in the way"
		if isPermanent(&ob) {
			title = "In the way for good"
		}
		fmt.Fprintf(&b, "%s: %s: %s\n  what helps: %s\n", title, ob.Node, textOf(&ob), oneLine(ob.Remedy))
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
	if n.Spec.Unschedulable {
		b.WriteString("  It is cordoned already.\n")
	}
	if since, silent := drain.UnreachableSince(n.Node); silent {
		fmt.Fprintf(b, "  It has not answered since %s: its pods cannot end. See --skip-wait-for-delete-timeout.\n",
			since.UTC().Format(time.RFC3339))
	}
	if len(n.Pods) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\n  POD\tACTION\tWHEN\tBUDGETS\tREASON")
	for _, p := range n.Pods {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", p.Pod, p.Action, p.When, p.Budgets, p.Reason)
	}
	_ = w.Flush() // a buffer does not fail
	b.WriteString("\n")
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
