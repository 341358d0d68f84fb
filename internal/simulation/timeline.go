package simulation

import (
	"fmt"
	"io"
	"strings"
	"time"

	svg "github.com/ajstarks/svgo"
)

// Sizes of a drawing in pixels.
const (
	namesWide, chartWide, rightWide = 260, 1200, 40
	topHigh, rowHigh, barHigh       = 50, 24, 14
	lineHigh                        = 16
	// mostTimes is how many times the axis shows, and mostLines how many events are written below.
	mostTimes, mostLines = 12, 60
	fontStyle            = "font-family:sans-serif;font-size:11px;fill:#1f2328"
)

// phaseColours are those of the phases of a Machine, in the order of the legend.
func phaseColours() [][2]string {
	return [][2]string{
		{"Pending", "#d0d7de"}, {"Provisioning", "#a5d6ff"}, {"Provisioned", "#54aeff"}, {"Running", "#4ac26b"}, {"Deleting", "#ffb77c"},
		{"Failed", "#cf5b56"},
	}
}

// bar is the time of a Machine in one phase, between two numbers of events.
type bar struct {
	row, from, to int
	phase         string
}

// Draw draws the history as SVG: the phases of the Machines, and what went wrong or was done by users, numbered and written below. Its axis
// counts events, because much may happen in no time; the times are beside it. The same history gives the same drawing.
func (h *History) Draw(to io.Writer) {
	names, bars := h.bars()
	lines := h.notable()
	at := func(event int) int { return namesWide + chartWide*event/max(len(h.Events), 1) }
	bottom := topHigh + rowHigh*len(names)
	width, height := namesWide+chartWide+rightWide, bottom+70+lineHigh*len(lines)
	canvas := svg.New(to)
	canvas.Startview(width, height, 0, 0, width, height)
	canvas.Title("Machines of a simulated history, and their phases")
	canvas.Rect(0, 0, width, height, "fill:#ffffff")
	for i := range mostTimes {
		if n := len(h.Events) * i / mostTimes; n < len(h.Events) {
			canvas.Line(at(n), topHigh-6, at(n), bottom, "stroke:#d8dee4")
			canvas.Text(at(n), bottom+14, h.Events[n].At.Round(time.Second).String(), fontStyle+";text-anchor:middle")
		}
	}
	for i, name := range names {
		canvas.Text(namesWide-8, topHigh+rowHigh*i+barHigh-3, name, fontStyle+";text-anchor:end")
	}
	for _, b := range bars {
		if from, end := at(b.from), at(b.to); end > from {
			canvas.Rect(from, topHigh+rowHigh*b.row, end-from, barHigh, "fill:"+phaseColour(b.phase))
		}
	}
	for i, n := range lines {
		canvas.Line(at(n), topHigh-6, at(n), bottom, "stroke:#1f2328;stroke-dasharray:2,4")
		canvas.Text(at(n), topHigh-10-10*(i%3), fmt.Sprint(i+1), fontStyle+";text-anchor:middle")
		canvas.Text(namesWide, bottom+70+lineHigh*i, fmt.Sprintf("(%d) %s", i+1, h.Events[n]), fontStyle)
	}
	x := namesWide
	for _, c := range phaseColours() {
		canvas.Rect(x, bottom+26, 12, 12, "fill:"+c[1])
		canvas.Text(x+16, bottom+36, c[0], fontStyle)
		x += 32 + 7*len(c[0])
	}
	canvas.End()
}

func phaseColour(phase string) string {
	for _, c := range phaseColours() {
		if c[0] == phase {
			return c[1]
		}
	}
	return "#8c959f"
}

// bars returns the Machines in the order in which they appeared, and their phases.
func (h *History) bars() (names []string, bars []bar) {
	rows, last := map[string]int{}, map[string]int{}
	for _, p := range h.Phases {
		row, known := rows[p.Machine]
		if !known {
			row = len(names)
			rows[p.Machine], names = row, append(names, p.Machine)
		}
		if i, running := last[p.Machine]; running {
			bars[i].to = p.Before
			delete(last, p.Machine)
		}
		if p.Phase != "" {
			last[p.Machine], bars = len(bars), append(bars, bar{row: row, from: p.Before, to: len(h.Events), phase: p.Phase})
		}
	}
	return names, bars
}

// notable returns the numbers of the last events in which something went wrong or a person acted.
func (h *History) notable() []int {
	var all []int
	for i, e := range h.Events {
		byHand := e.Actor == "user" || e.Actor == "operator" || e.Actor == "lease" || e.Actor == "world" || e.Actor == "network"
		if wrong := strings.Contains(e.What, "crashes") || faultOf(e.Answer) != ""; byHand || wrong {
			all = append(all, i)
		}
	}
	return all[max(0, len(all)-mostLines):]
}

// faultOf returns the fault in an answer, empty without one.
func faultOf(answer string) Fault {
	for _, f := range requestFaults() {
		if strings.HasPrefix(answer, string(f)+": ") {
			return f
		}
	}
	return ""
}
