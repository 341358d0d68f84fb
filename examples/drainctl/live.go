package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

const (
	redrawEvery = 250 * time.Millisecond
	// The cursor is never hidden and is moved only within the block, so that there is nothing to restore at the end.
	cursorUp  = "\x1b[%dA"
	eraseDown = "\x1b[J"
)

// liveView redraws a block at the bottom of a terminal: a row per Node, and what is in the way. Troubles scroll away above it.
type liveView struct {
	out   io.Writer
	size  func() (width, height int)
	f     *follower
	drawn int // lines of the block on the screen
}

func (v *liveView) begin(f *follower)    { v.f = f }
func (v *liveView) every() time.Duration { return redrawEvery }
func (v *liveView) tick()                { v.draw(nil) }

func (v *liveView) tell(c change) {
	switch c.Event {
	case eventPlanned:
		v.draw(append([]string{v.f.intent() + " (Ctrl-C stops, the same command resumes)"}, c.Plan.notes()...))
	case eventTrouble, eventFailed:
		v.draw([]string{nodeText(c)})
	}
}

func (v *liveView) finish(s summary) {
	if v.drawn > 0 {
		v.draw(nil)
		fmt.Fprintln(v.out)
	}
	for _, text := range s.lines() {
		fmt.Fprintln(v.out, printable(text))
	}
}

// draw replaces the block, with lines above it that stay.
func (v *liveView) draw(above []string) {
	width, height := v.size()
	block := v.block(height)
	if limit := max(1, height-2); len(block) > limit { // what has scrolled away cannot be redrawn
		block = append(block[:limit-1:limit-1], fmt.Sprintf("... %d more lines: the terminal is too low", len(block)-limit+1))
	}
	var b bytes.Buffer
	if v.drawn > 0 {
		fmt.Fprintf(&b, cursorUp, v.drawn)
	}
	b.WriteString("\r" + eraseDown)
	for _, text := range above {
		b.WriteString(oneLine(text) + "\n")
	}
	for _, text := range block {
		b.WriteString(cut(printable(text), width) + "\n")
	}
	v.drawn = len(block)
	_, _ = v.out.Write(b.Bytes())
}

// block has a row per Node, and below them what is in the way. On a low terminal the Nodes that are at work come first.
func (v *liveView) block(height int) []string {
	now := v.f.now()
	nodes := slices.Clone(v.f.nodes)
	if len(nodes) > height/2 {
		slices.SortStableFunc(nodes, func(a, b *progressOf) int { return a.rank() - b.rank() })
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tGONE\tLEFT\tTERMINATING\tWAITING\tBLOCKED\tSTAY\tTIME")
	var details []string
	for _, n := range nodes {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", n.name, n.state, n.counts.Gone, n.counts.Left,
			n.counts.Terminating, n.counts.Waiting+n.counts.Asked, n.counts.Blocked, n.counts.Stay, n.took(now))
		if n.working() {
			details = append(details, n.details(now)...)
		}
	}
	_ = w.Flush() // a buffer does not fail
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	return append(lines, details...)
}

// rank sorts Nodes by how much there is to see.
func (n *progressOf) rank() int {
	return slices.Index([]string{stateDetaching, stateDraining, stateFailed, stateStopped, stateWaiting, stateDrained}, n.state)
}

func (n *progressOf) working() bool { return n.state == stateDraining || n.state == stateDetaching }

func (n *progressOf) took(now time.Time) string {
	switch {
	case n.began.IsZero():
		return "-"
	case !n.ended.IsZero() && !n.working():
		return duration.HumanDuration(n.ended.Sub(n.began))
	default:
		return duration.HumanDuration(now.Sub(n.began))
	}
}

// details name the blocked Pods and since when they are blocked.
func (n *progressOf) details(now time.Time) []string {
	var lines []string
	for i := range n.blockers {
		b := &n.blockers[i]
		since := ""
		if b.Since != nil {
			since = " for " + duration.HumanDuration(now.Sub(*b.Since))
		}
		lines = append(lines, fmt.Sprintf("! %s: blocked%s: %s", n.name, since, podsText(b.Pods, b.Count)), "    "+b.why())
	}
	if len(n.volumes) > 0 {
		lines = append(lines, fmt.Sprintf("! %s: still attached: %s", n.name,
			podsText(n.volumes[:min(pageNames, len(n.volumes))], len(n.volumes))))
	}
	return lines
}

// cut keeps a line from being wrapped, which would spoil the redrawing.
func cut(text string, width int) string {
	runes := []rune(text)
	if width <= 0 || len(runes) <= width {
		return text
	}
	return string(runes[:max(0, width-3)]) + "..."[:min(3, width)]
}
