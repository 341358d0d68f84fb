package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	svg "github.com/ajstarks/svgo"
)

// lane is a Machine of the timeline, with its phases in order.
type lane struct {
	name   string
	phases []span
}

// span is a time in seconds in which a Machine was in a phase.
type span struct {
	phase    string
	from, to float64
}

// blocked is the phase of a Machine whose drain waits for the budget.
const blocked = "waiting for the budget"

// lanes returns what the Machines of a story did, in the order in which they appeared, until the last event.
func lanes(events []event) (all []lane, end float64) {
	at := map[string]int{}
	for _, e := range events {
		end = max(end, e.Seconds)
		if e.Kind != "Machine" {
			continue
		}
		i, found := at[e.Name]
		if !found {
			i = len(all)
			at[e.Name] = i
			all = append(all, lane{name: e.Name})
		}
		all[i].note(e)
	}
	for i := range all {
		all[i].until(end)
	}
	return all, end
}

// note takes an event of the Machine.
func (l *lane) note(e event) {
	if e.Event == happenedGone {
		l.until(e.Seconds)
		l.phases = append(l.phases, span{from: e.Seconds, to: e.Seconds}) // nothing follows
		return
	}
	if e.Machine == nil {
		return
	}
	phase := e.Machine.Phase
	if phase == "Deleting" && waitsFor(e.Machine.Message) {
		phase = blocked
	}
	if n := len(l.phases); n == 0 || l.phases[n-1].phase != phase {
		l.until(e.Seconds)
		l.phases = append(l.phases, span{phase: phase, from: e.Seconds, to: e.Seconds})
	}
}

// until ends the current phase.
func (l *lane) until(end float64) {
	if n := len(l.phases); n > 0 && l.phases[n-1].phase != "" {
		l.phases[n-1].to = end
	}
}

// colours are those of the phases, in the order of the legend.
func colours() [][2]string {
	return [][2]string{
		{"Pending", "#d0d7de"}, {"Provisioning", "#a5d6ff"}, {"Provisioned", "#54aeff"}, {"Running", "#4ac26b"}, {"Deleting", "#ffb77c"},
		{blocked, "#cf5b56"},
	}
}

// Sizes of the drawing.
const (
	left, right, rowHeight, barHeight = 220, 60, 26, 16
	chart                             = 640 // the width of the axis
	top                               = 30
	stepEvery                         = 5 // seconds between marks of the axis
	textStyle                         = "font-family:sans-serif;font-size:12px;fill:#1f2328"
)

// drawTimeline draws who was in which phase when, and the acts of the story. Equal events give the same drawing.
func drawTimeline(out io.Writer, events []event) {
	all, end := lanes(events)
	scale := func(seconds float64) int { return left + int(seconds/max(end, 1)*chart) }
	var acts []event
	for _, e := range events {
		if e.Kind == kindAct {
			acts = append(acts, e)
		}
	}
	bottom := top + rowHeight*len(all)
	height := bottom + 60 + 18*len(acts)
	canvas := svg.New(out)
	canvas.Startview(left+chart+right, height, 0, 0, left+chart+right, height)
	canvas.Title("Machines of the quickstart, and their phases")
	canvas.Rect(0, 0, left+chart+right, height, "fill:#ffffff")
	for second := 0; float64(second) <= end; second += stepEvery {
		canvas.Line(scale(float64(second)), top-6, scale(float64(second)), bottom, "stroke:#d8dee4")
		canvas.Text(scale(float64(second)), bottom+16, fmt.Sprintf("%d s", second), textStyle+";text-anchor:middle")
	}
	for i, l := range all {
		y := top + rowHeight*i
		canvas.Text(left-10, y+barHeight-3, l.name, textStyle+";text-anchor:end")
		for _, p := range l.phases {
			if from, to := scale(p.from), scale(p.to); to > from {
				canvas.Rect(from, y, to-from, barHeight, "fill:"+colourOf(p.phase))
			}
		}
	}
	for i, act := range acts {
		x := scale(act.Seconds)
		canvas.Line(x, top-6, x, bottom, "stroke:#1f2328;stroke-dasharray:3,3")
		canvas.Text(x, top-12, fmt.Sprint(i+1), textStyle+";text-anchor:middle;font-weight:bold")
		canvas.Text(left, bottom+60+18*i, fmt.Sprintf("(%d) %s", i+1, act.Message), textStyle)
	}
	x := left
	for _, c := range colours() {
		canvas.Rect(x, bottom+26, 12, 12, "fill:"+c[1])
		canvas.Text(x+16, bottom+36, c[0], textStyle)
		x += 32 + 7*len(c[0])
	}
	canvas.End()
}

func colourOf(phase string) string {
	for _, c := range colours() {
		if c[0] == phase {
			return c[1]
		}
	}
	return "#8c959f" // a phase that other programs have invented
}

// recorder keeps what a view shows.
type recorder struct {
	view

	events []event
}

func (r *recorder) tell(e event) {
	r.events = append(r.events, e)
	r.view.tell(e)
}

// timelineFile is where a timeline is written: beside its name first, so that there is never half a file.
type timelineFile struct {
	name string
	temp *os.File
}

// openTimeline reports before the story begins that a file cannot be written.
func openTimeline(name string) (*timelineFile, error) {
	temp, err := os.CreateTemp(filepath.Dir(name), ".timeline-*")
	if err != nil {
		return nil, fmt.Errorf("-timeline %s: %w", name, err)
	}
	return &timelineFile{name, temp}, nil
}

// write draws the story into the file.
func (f *timelineFile) write(events []event) error {
	drawTimeline(f.temp, events)
	err := errors.Join(f.temp.Chmod(0o644), f.temp.Close())
	if err == nil {
		err = os.Rename(f.temp.Name(), f.name)
	}
	if err != nil {
		return fmt.Errorf("-timeline %s: %w", f.name, errors.Join(err, os.Remove(f.temp.Name())))
	}
	return nil
}
