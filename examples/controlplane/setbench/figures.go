package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/examples/controlplane/arms"
	"github.com/machinist-dev/machinist/examples/controlplane/bench"
	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
)

// figures are what one set, or one deployment, has cost. roll is nil for a set.
type figures struct {
	machines int
	up, down phase
	roll     *phase
	cpu      float64 // seconds in all
}

// phases are those that were measured, in order.
func (f figures) phases() []phase {
	if f.roll == nil {
		return []phase{f.up, f.down}
	}
	return []phase{f.up, *f.roll, f.down}
}

// sum adds up what each phase has.
func (f figures) sum(of func(phase) int) int {
	n := 0
	for _, p := range f.phases() {
		n += of(p)
	}
	return n
}

// each is what each phase has, as text.
func (f figures) each(of func(phase) int) string {
	var all []string
	for _, p := range f.phases() {
		all = append(all, strconv.Itoa(of(p)))
	}
	return strings.Join(all, " + ")
}

// phase is one scaling.
type phase struct {
	seconds   float64
	writes    map[string]int // by verb and resource
	reads     int
	conflicts int
}

// isCounted leaves out Leases, which tell who leads.
func isCounted(e cluster.AuditEvent) bool { return e.Resource != "leases" }

func phaseOf(events cluster.AuditEvents, took time.Duration) phase {
	p := phase{seconds: took.Seconds(), writes: map[string]int{}}
	for _, e := range events.Where(isCounted) {
		switch {
		case e.IsWrite():
			name := e.Verb + " " + e.Resource
			if e.Subresource != "" {
				name += "/" + e.Subresource
			}
			p.writes[name]++
			if e.Code == http.StatusConflict {
				p.conflicts++
			}
		case e.Verb == "get" || e.Verb == "list":
			p.reads++
		}
	}
	return p
}

func (p phase) total() int {
	n := 0
	for _, count := range p.writes {
		n += count
	}
	return n
}

func (f figures) perMachine() float64 { return float64(f.sum(phase.total)) / float64(f.machines) }

func (f figures) String() string {
	roll := ""
	if f.roll != nil {
		roll = fmt.Sprintf(" rolled out after %.1fs,", f.roll.seconds)
	}
	return fmt.Sprintf("up after %.1fs,%s down after %.1fs, %.1f writes per Machine, %.1fs CPU",
		f.up.seconds, roll, f.down.seconds, f.perMachine(), f.cpu)
}

// report is a table of all writes, and a line of medians for other programs.
func report(o options, measured map[arms.Name][]figures) string {
	var out strings.Builder
	host := bench.ThisHost()
	fmt.Fprintf(&out, "%d Machines of one %s, %d rounds, on %d CPUs %s\n\nWrites of the last round:\n", o.machines,
		strings.ToLower(strings.TrimPrefix(o.kind(), "Machine")), o.rounds, host.CPUs, host.OS)
	names := map[string]bool{}
	last := map[arms.Name]figures{}
	for arm, all := range measured {
		last[arm] = all[len(all)-1]
		for _, p := range last[arm].phases() {
			for name := range p.writes {
				names[name] = true
			}
		}
	}
	fmt.Fprintf(&out, "%-40s %15s %15s\n", "", armOurs, armCAPI)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		cell := func(arm arms.Name) string {
			if _, found := last[arm]; !found {
				return "-"
			}
			return last[arm].each(func(p phase) int { return p.writes[name] })
		}
		fmt.Fprintf(&out, "%-40s %15s %15s\n", name, cell(armOurs), cell(armCAPI))
	}
	for _, arm := range slices.Sorted(maps.Keys(last)) {
		fmt.Fprintf(&out, "%s: %s reads, %s conflicts\n", arm, last[arm].each(func(p phase) int { return p.reads }),
			last[arm].each(func(p phase) int { return p.conflicts }))
	}
	pair := func(name, unit string, pick func(figures) float64) string {
		ours, theirs := median(measured[armOurs], pick), median(measured[armCAPI], pick)
		ratio := "-"
		if ours > 0 && theirs > 0 {
			ratio = fmt.Sprintf("%.2f", ours/theirs)
		}
		return fmt.Sprintf("%s %s=%.2f%s %s=%.2f%s ratio=%s", name, armOurs, ours, unit, armCAPI, theirs, unit, ratio)
	}
	pairs := []string{
		pair("writes/machine", "", figures.perMachine),
		pair("cpu", "s", func(f figures) float64 { return f.cpu }),
		pair("up", "s", func(f figures) float64 { return f.up.seconds }),
		pair("down", "s", func(f figures) float64 { return f.down.seconds }),
	}
	if o.rollout {
		pairs = append(pairs, pair("roll", "s", func(f figures) float64 { return f.roll.seconds }),
			pair("roll-writes/machine", "", func(f figures) float64 { return float64(f.roll.total()) / float64(f.machines) }))
	}
	fmt.Fprintf(&out, "\n%s: %s\n", ownName, strings.Join(pairs, " | "))
	return out.String()
}

func median(all []figures, pick func(figures) float64) float64 {
	values := make([]float64, 0, len(all))
	for _, f := range all {
		values = append(values, pick(f))
	}
	return bench.Median(values)
}
