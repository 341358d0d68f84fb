package main

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/machinist-dev/machinist/drain"
)

// text returns a plan for people. run is the command that carries it out.
func (r *report) text(wide bool, run string) string {
	var b strings.Builder
	for i := range r.Nodes {
		r.Nodes[i].text(&b, wide)
	}
	r.obstacleText(&b)
	if len(r.Held) > 0 {
		b.WriteString("Held for now:\n")
		for i := range r.Held {
			fmt.Fprintf(&b, "  %s\n", r.Held[i].text())
		}
		b.WriteString("\n")
	}
	if len(r.Warnings) > 0 {
		b.WriteString("Warnings:\n")
		for i := range r.Warnings {
			fmt.Fprintf(&b, "  %s\n", r.Warnings[i].text())
		}
		b.WriteString("\n")
	}
	if r.Blocked {
		fmt.Fprintf(&b, "Nothing was changed. This drain would not end: see what is in the way. To start it all the same: %s --wait\n", run)
	} else {
		fmt.Fprintf(&b, "Nothing was changed. To drain: %s\n", run)
	}
	return b.String()
}

func (n *nodeReport) text(b *strings.Builder, wide bool) {
	fmt.Fprintf(b, "%s: %s\n", n.Name, n.Counts.text())
	if n.Cordoned {
		b.WriteString("  It is cordoned already.\n")
	}
	if n.Silent != nil {
		fmt.Fprintf(b, "  It has not answered since %s: its pods cannot end. See --skip-wait-for-delete-timeout.\n",
			n.Silent.UTC().Format(time.RFC3339))
	}
	b.WriteString("\n")
	if len(n.Pods) == 0 {
		return
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	head := "  POD\tACTION\tWHEN\tORDER\tBUDGETS\tREASON\tWARNINGS"
	if wide {
		head += "\tGRACE\tOWNER\tMESSAGE"
	}
	fmt.Fprintln(w, head)
	for i := range n.Pods {
		fmt.Fprintln(w, "  "+n.Pods[i].row(wide))
	}
	_ = w.Flush() // a buffer does not fail
	for line := range strings.Lines(table.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	b.WriteString("\n")
}

func (p *podReport) row(wide bool) string {
	cells := []string{
		p.name(), strings.ToLower(p.Action), p.When, fmt.Sprint(p.Order), orDash(strings.Join(p.Budgets, ",")),
		string(p.Reason), orDash(reasons(p.Warnings)),
	}
	if wide {
		cells = append(cells, fmt.Sprintf("%ds", p.GracePeriodSeconds), orDash(p.Owner), orDash(oneLine(p.Message)))
	}
	return strings.Join(cells, "\t")
}

func (c whenReport) text() string {
	return count(c.Pods, "pod", "pods") + parts([]part{
		{c.Now, "go now"}, {c.Later, "go later"}, {c.Going, "terminating"}, {c.Never, "never go"}, {c.Stay, "stay"},
	})
}

// part is a number of pods.
type part struct {
	n    int
	what string
}

// parts continues a sentence with those that are not 0.
func parts(of []part) string {
	var b strings.Builder
	for _, p := range of {
		if p.n > 0 {
			fmt.Fprintf(&b, ", %d %s", p.n, p.what)
		}
	}
	return b.String()
}

func (r *report) obstacleText(b *strings.Builder) {
	section := func(title string, stands bool) {
		for i := range r.Obstacles {
			if r.Obstacles[i].Stands != stands {
				continue
			}
			if title != "" {
				b.WriteString(title + ":\n")
				title = ""
			}
			fmt.Fprintf(b, "  %s\n      what helps: %s\n", r.Obstacles[i].text(), oneLine(r.Obstacles[i].Remedy))
		}
		if title == "" {
			b.WriteString("\n")
		}
	}
	section("In the way for good", true)
	section("May stay in the way", false)
}

func (b *blockerReport) text() string {
	return fmt.Sprintf("%s: %s: %s", b.Node, podsText(b.Pods, b.Count), b.why())
}

// why is the message without the words that begin all messages about budgets.
func (b *blockerReport) why() string {
	text := oneLine(b.Message)
	if rest, found := strings.CutPrefix(text, "cannot evict pod as it would violate the pod's disruption budget. "); found {
		return rest
	}
	return text
}

func (w *warningReport) text() string {
	return fmt.Sprintf("%s: %s: %s", w.Node, podsText(w.Pods, w.Count), oneLine(w.Message))
}

func podsText(names []string, all int) string {
	text := strings.Join(names, ", ")
	if more := all - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func reasons(of []drain.Reason) string {
	words := make([]string, 0, len(of))
	for _, reason := range of {
		words = append(words, string(reason))
	}
	return strings.Join(words, ",")
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
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
