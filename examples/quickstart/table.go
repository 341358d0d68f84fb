package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

const (
	redrawEvery = 250 * time.Millisecond
	// The cursor is never hidden and moves only within the block, so that nothing must be restored at the end.
	cursorUp  = "\x1b[%dA"
	eraseLine = "\x1b[2K"
	eraseDown = "\x1b[J"
)

// table redraws a block at the bottom of a terminal: the Machines, the budget and the drain. Steps and deleted pods
// scroll above it.
type table struct {
	out    io.Writer
	known  *picture
	size   func() (width, height int)
	ticker *time.Ticker
	drawn  int // lines of the block on the screen
}

func newTable(out io.Writer, known *picture, size func() (width, height int)) *table {
	return &table{out: out, known: known, size: size, ticker: time.NewTicker(redrawEvery)}
}

func (t *table) ticks() <-chan time.Time { return t.ticker.C }

func (t *table) tick() { t.draw(nil) }

func (t *table) tell(e event) {
	switch {
	case e.Kind == kindAct:
		t.draw([]string{line(e)})
	case t.deleting() && e.Machine == nil && e.Budget == nil:
		t.draw([]string{line(e)})
	default:
		t.draw(nil)
	}
}

func (t *table) finish(s summary) {
	t.ticker.Stop()
	t.draw(nil)
	fmt.Fprintln(t.out)
	for _, text := range s.lines() {
		fmt.Fprintln(t.out, text)
	}
}

// draw replaces the block, and prints lines above it.
func (t *table) draw(above []string) {
	width, height := t.size()
	block := t.block(width)
	if limit := max(1, height-2); len(block) > limit { // lines that have scrolled away cannot be redrawn
		block = append(block[:limit-1:limit-1], fmt.Sprintf("... %d more lines: the terminal is too low", len(block)-limit+1))
	}
	var b bytes.Buffer
	if t.drawn > 0 {
		fmt.Fprintf(&b, cursorUp, t.drawn)
	}
	b.WriteString("\r" + eraseDown)
	for _, text := range above {
		b.WriteString(text + "\n")
	}
	for _, text := range block {
		b.WriteString(eraseLine + cut(text, width) + "\n")
	}
	t.drawn = len(block)
	_, _ = t.out.Write(b.Bytes())
}

func (t *table) deleting() bool {
	for _, l := range t.known.machines {
		if !l.deleting.IsZero() {
			return true
		}
	}
	return false
}

// block returns the Machines, the budget, and the complete message of a drain.
func (t *table) block(width int) []string {
	if len(t.known.machines) == 0 {
		return nil
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tPHASE\tNODE\tPROVIDERID\tVERSION\tREADY\tPODS\tAGE\tMESSAGE")
	for _, name := range slices.Sorted(maps.Keys(t.known.machines)) {
		fmt.Fprintln(w, t.row(name, t.known.machines[name]))
	}
	_ = w.Flush() // a buffer does not fail
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if t.known.budget != nil {
		row := budgetRowOf(t.known.budget)
		lines = append(lines, fmt.Sprintf("budget %s: wants %d ready, has %d, allows %d to leave",
			budgetName(t.known.budget), row.Demands, row.Healthy, row.Allows))
	}
	for _, name := range slices.Sorted(maps.Keys(t.known.machines)) {
		if l := t.known.machines[name]; l.gone.IsZero() {
			lines = append(lines, wrap(drainDetails(l.row.Message), width)...)
		}
	}
	return lines
}

func (t *table) row(name string, l *life) string {
	if !l.gone.IsZero() {
		return strings.Join([]string{name, "gone", "-", "-", orDash(l.row.Version), "-", "-", "-", ""}, "\t")
	}
	pods, ready := t.known.podsOn(l.row.Node)
	onNode := "-"
	if l.row.Node != "" {
		onNode = fmt.Sprintf("%d/%d", ready, len(pods))
	}
	return strings.Join([]string{
		name, orDash(l.row.Phase), orDash(l.row.Node), shortID(l.row.ProviderID), orDash(l.row.Version), l.row.Ready, onNode,
		duration.HumanDuration(time.Since(l.created)), tableMessage(l.row.Message),
	}, "\t")
}

// tableMessage is short if the details are below the table.
func tableMessage(message string) string {
	if drainDetails(message) != "" {
		return "draining, see below"
	}
	return oneLine(message)
}

// wrap breaks a text between words into lines of at most width characters; longer words are not broken.
func wrap(text string, width int) []string {
	var out []string
	for part := range strings.Lines(text) {
		line := ""
		for word := range strings.FieldsSeq(part) {
			if line != "" && len(line)+1+len(word) > width {
				out = append(out, line)
				line = "  " + word
				continue
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		if line != "" {
			out = append(out, line)
		}
	}
	return out
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// shortID keeps both ends of a provider ID, which are the parts that differ.
func shortID(id string) string {
	const most = 20
	if len(id) <= most {
		return orDash(id)
	}
	return id[:8] + "..." + id[len(id)-8:]
}

// cut shortens a line, because a wrapped line would break the redrawing. Texts here are ASCII.
func cut(text string, width int) string {
	if width <= 0 || len(text) <= width {
		return text
	}
	return text[:max(0, width-3)] + "..."[:min(3, width)]
}
