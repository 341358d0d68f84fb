package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/machinist-dev/machinist/examples/command"
)

// Values of -o.
const (
	outputLines = "lines"
	outputJSON  = "json"
)

// view shows a story. Only the story's goroutine uses it.
type view interface {
	// tell shows a change, after the picture has applied it.
	tell(event)
	// ticks asks for calls of tick; nil when the view does not change by itself.
	ticks() <-chan time.Time
	tick()
	// finish shows the summary and ends the view.
	finish(summary)
}

// newView selects the view: a table needs a terminal that can move the cursor.
func newView(format string, out io.Writer, p *picture) view {
	file, ok := command.File(out)
	switch {
	case format == outputJSON:
		return &jsonView{json.NewEncoder(out)}
	case format == "" && ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb":
		return newTable(out, p, func() (int, int) {
			width, height, err := term.GetSize(int(file.Fd()))
			if err != nil {
				return 80, 24
			}
			return width, height
		})
	default:
		return &lineView{out: out, seen: map[string]machineRow{}}
	}
}

// jsonView prints an object per line.
type jsonView struct{ *json.Encoder }

func (v *jsonView) tell(e event)            { _ = v.Encode(e) } // command.Run sees the error
func (v *jsonView) ticks() <-chan time.Time { return nil }
func (v *jsonView) tick()                   {}
func (v *jsonView) finish(s summary)        { _ = v.Encode(s) }

// lineView prints a line per change.
type lineView struct {
	out  io.Writer
	seen map[string]machineRow
}

func (v *lineView) tell(e event) {
	if e.Machine != nil {
		row, old := *e.Machine, v.seen[e.Name]
		v.seen[e.Name] = row
		if row.Node == old.Node {
			row.Node = ""
		}
		if row.ProviderID == old.ProviderID {
			row.ProviderID = ""
		}
		e.Machine = &row
	}
	fmt.Fprintln(v.out, line(e))
}

func (v *lineView) ticks() <-chan time.Time { return nil }
func (v *lineView) tick()                   {}

func (v *lineView) finish(s summary) {
	fmt.Fprintln(v.out)
	for _, text := range s.lines() {
		fmt.Fprintln(v.out, text)
	}
}

// line formats a change as a line.
func line(e event) string {
	at := fmt.Sprintf("%5.1fs ", e.Seconds)
	if e.Kind == kindAct {
		return at + "== " + e.Message
	}
	subject := fmt.Sprintf("%s %s ", e.Kind, e.Name)
	switch {
	case e.Machine != nil && e.Event != happenedGone:
		return at + subject + machineText(*e.Machine)
	case e.Deployment != nil:
		d := e.Deployment
		return at + subject + fmt.Sprintf("has %d Machines, %d up to date, %d available", d.Replicas, d.UpToDate, d.Available)
	case e.Pod != nil:
		return at + subject + podText(e)
	case e.Budget != nil:
		b := e.Budget
		return at + subject + fmt.Sprintf("wants %d ready, has %d, allows %d to leave", b.Demands, b.Healthy, b.Allows)
	}
	return at + subject + strings.ToLower(e.Event) + e.Message
}

func machineText(row machineRow) string {
	text := row.Phase
	if row.Node != "" {
		text += " node=" + row.Node
	}
	if row.ProviderID != "" {
		text += " providerID=" + row.ProviderID
	}
	text += " ready=" + row.Ready
	if row.Message != "" {
		text += ": " + shortMessage(row.Message)
	}
	return text
}

func podText(e event) string {
	where := ""
	if e.Pod.Node != "" {
		where = " on " + e.Pod.Node
	}
	what := map[string]string{happenedBound: "placed", happenedReady: "ready", happenedLeaving: "evicted, shutting down",
		happenedUnready: "not ready"}[e.Event]
	if what == "" {
		what = strings.ToLower(e.Event)
	}
	return fmt.Sprintf("%s%s (%d ready)", what, where, e.Pod.ReadyInAll)
}

// oneLine joins the lines of a condition's message.
func oneLine(message string) string {
	var parts []string
	for part := range strings.Lines(message) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, strings.TrimPrefix(part, "* "))
		}
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), ":; ", ": ")
}

// shortMessage leaves out what every drain's message begins with.
func shortMessage(message string) string {
	if details := drainDetails(message); details != "" {
		return "draining; " + oneLine(details)
	}
	return oneLine(message)
}

// drainDetails returns what a drain's message says after its first line.
func drainDetails(message string) string {
	first, rest, _ := strings.Cut(message, "\n")
	if !strings.HasPrefix(first, "Drain not completed yet") {
		return ""
	}
	return rest
}
