package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/examples/controlplane/bench"
	"github.com/machinist-dev/machinist/examples/controlplane/cluster"
)

// figures are what one set has cost.
type figures struct {
	machines int
	up, down phase
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

func (f figures) perMachine() float64 {
	return float64(f.up.total()+f.down.total()) / float64(f.machines)
}

func (f figures) String() string {
	return fmt.Sprintf("up after %.1fs, down after %.1fs, %.1f writes per Machine", f.up.seconds, f.down.seconds, f.perMachine())
}

// report is a table of all writes, and a line of medians for other programs.
func report(o options, measured map[string][]figures) string {
	var out strings.Builder
	host := bench.ThisHost()
	fmt.Fprintf(&out, "%d Machines of one set, %d rounds, on %d CPUs %s\n\nWrites of the last round, up and down:\n", o.machines, o.rounds,
		host.CPUs, host.OS)
	names := map[string]bool{}
	last := map[string]figures{}
	for arm, all := range measured {
		last[arm] = all[len(all)-1]
		for _, p := range []phase{last[arm].up, last[arm].down} {
			for name := range p.writes {
				names[name] = true
			}
		}
	}
	fmt.Fprintf(&out, "%-40s %15s %15s\n", "", armOurs, armCAPI)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		cell := func(arm string) string {
			if _, found := last[arm]; !found {
				return "-"
			}
			return fmt.Sprintf("%d + %d", last[arm].up.writes[name], last[arm].down.writes[name])
		}
		fmt.Fprintf(&out, "%-40s %15s %15s\n", name, cell(armOurs), cell(armCAPI))
	}
	for _, arm := range slices.Sorted(maps.Keys(last)) {
		fmt.Fprintf(&out, "%s: %d + %d reads, %d + %d conflicts\n", arm, last[arm].up.reads, last[arm].down.reads, last[arm].up.conflicts,
			last[arm].down.conflicts)
	}
	pair := func(name, unit string, pick func(figures) float64) string {
		ours, theirs := median(measured[armOurs], pick), median(measured[armCAPI], pick)
		ratio := "-"
		if ours > 0 && theirs > 0 {
			ratio = fmt.Sprintf("%.2f", ours/theirs)
		}
		return fmt.Sprintf("%s %s=%.2f%s %s=%.2f%s ratio=%s", name, armOurs, ours, unit, armCAPI, theirs, unit, ratio)
	}
	fmt.Fprintf(&out, "\n%s: %s\n", ownName, strings.Join([]string{
		pair("writes/machine", "", figures.perMachine),
		pair("up", "s", func(f figures) float64 { return f.up.seconds }),
		pair("down", "s", func(f figures) float64 { return f.down.seconds }),
	}, " | "))
	return out.String()
}

func median(all []figures, pick func(figures) float64) float64 {
	values := make([]float64, 0, len(all))
	for _, f := range all {
		values = append(values, pick(f))
	}
	return bench.Median(values)
}
