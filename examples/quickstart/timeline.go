package main

import (
	"bytes"
	"fmt"
	"time"

	svg "github.com/ajstarks/svgo"
)

// colours are those of the phases, in the order of the legend.
func colours() [][2]string {
	return [][2]string{
		{"Pending", "#d0d7de"}, {"Provisioning", "#a5d6ff"}, {"Provisioned", "#54aeff"}, {"Running", "#4ac26b"}, {"Deleting", "#ffb77c"},
		{blocked, "#cf5b56"},
	}
}

// Sizes of the drawing.
const (
	left, right, top, rowHeight, barHeight = 220, 60, 30, 26, 16
	chart                                  = 640 // the width of the axis
	textStyle                              = "font-family:sans-serif;font-size:12px;fill:#1f2328"
)

// timeline returns a picture as SVG: who was in which phase when, and the acts of the story. Equal pictures give the same drawing.
func timeline(p *picture) []byte {
	x := func(at time.Duration) int { return left + int(at.Seconds()/max(p.now.Seconds(), 1)*chart) }
	bottom := top + rowHeight*len(p.machines)
	width, height := left+chart+right, bottom+60+18*len(p.acts)
	var out bytes.Buffer
	d := svg.New(&out)
	d.Startview(width, height, 0, 0, width, height)
	d.Title("Machines of the quickstart, and their phases")
	d.Rect(0, 0, width, height, "fill:#ffffff")
	for at := time.Duration(0); at <= p.now; at += 5 * time.Second {
		d.Line(x(at), top-6, x(at), bottom, "stroke:#d8dee4")
		d.Text(x(at), bottom+16, fmt.Sprintf("%.0f s", at.Seconds()), textStyle+";text-anchor:middle")
	}
	for i, l := range p.machines {
		y := top + rowHeight*i
		d.Text(left-10, y+barHeight-3, l.name, textStyle+";text-anchor:end")
		for _, s := range l.spans {
			if from, to := x(s.from), x(s.to); to > from {
				d.Rect(from, y, to-from, barHeight, "fill:"+colourOf(s.what))
			}
		}
	}
	for i, act := range p.acts {
		d.Line(x(act.from), top-6, x(act.from), bottom, "stroke:#1f2328;stroke-dasharray:3,3")
		d.Text(x(act.from), top-12, fmt.Sprint(i+1), textStyle+";text-anchor:middle;font-weight:bold")
		d.Text(left, bottom+60+18*i, fmt.Sprintf("(%d) %s", i+1, act.what), textStyle)
	}
	legend := left
	for _, c := range colours() {
		d.Rect(legend, bottom+26, 12, 12, "fill:"+c[1])
		d.Text(legend+16, bottom+36, c[0], textStyle)
		legend += 32 + 7*len(c[0])
	}
	d.End()
	return out.Bytes()
}

func colourOf(phase string) string {
	for _, c := range colours() {
		if c[0] == phase {
			return c[1]
		}
	}
	return "#8c959f" // a phase that other programs have invented
}
