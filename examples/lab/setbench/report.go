package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/machinist-dev/machinist/examples/lab/arms"
	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// report is a table of all writes, and a line of medians for other programs.
func report(o options, measured map[arms.Name][]figures) string {
	var out strings.Builder
	host := bench.ThisHost()
	owners := "one " + strings.ToLower(strings.TrimPrefix(o.kind(), "Machine"))
	if o.fleet {
		owners = fmt.Sprintf("%d deployments", deployments)
	}
	fmt.Fprintf(&out, "%d Machines of %s, %d rounds, on %d CPUs %s\n\n", o.machines, owners, o.rounds, host.CPUs, host.OS)
	last := map[arms.Name]figures{}
	for arm, all := range measured {
		last[arm] = all[len(all)-1]
	}
	out.WriteString(writesOf(last))
	for _, arm := range slices.Sorted(maps.Keys(last)) {
		fmt.Fprintf(&out, "%s: %s reads, %s conflicts\n", arm, last[arm].each(func(p phase) int { return p.reads }),
			last[arm].each(func(p phase) int { return p.conflicts }))
		if o.health {
			p := last[arm].of(stepReplace)
			deleted := p.times["delete machines"]
			fmt.Fprintf(&out, "%s: judged after %.1fs; %d Machines deleted %.1fs to %.1fs after their Nodes failed, the last other one Available "+
				"after %.1fs\n", arm, last[arm].of(stepJudge).seconds, o.bad(), deleted.first, deleted.last, p.seconds)
		}
	}
	var pairs []string
	for _, m := range o.medians() {
		pairs = append(pairs, m.pair(measured))
	}
	fmt.Fprintf(&out, "\n%s: %s\n", o.title(), strings.Join(pairs, " | "))
	return out.String()
}

// writesOf is a table of what each arm wrote in each phase.
func writesOf(last map[arms.Name]figures) string {
	var out strings.Builder
	out.WriteString("Writes of the last round:\n")
	names := map[string]bool{}
	for _, f := range last {
		for _, p := range f.phases {
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
	return out.String()
}

// title begins the last line.
func (o options) title() string {
	switch {
	case o.health:
		return "health-bench"
	case o.fleet:
		return "fleet-bench"
	}
	return ownName
}

// median is a figure of the last line.
type median struct {
	name, unit string
	pick       func(figures) float64
}

// medians are the figures of the last line.
func (o options) medians() []median {
	seconds := func(step string) func(figures) float64 { return func(f figures) float64 { return f.of(step).seconds } }
	writes := func(step string) func(figures) float64 {
		return func(f figures) float64 { return float64(f.of(step).total()) / float64(f.machines) }
	}
	if o.health {
		each := func(of func(phase) int) func(figures) float64 {
			return func(f figures) float64 { return float64(of(f.of(stepReplace))) / float64(f.replaced) }
		}
		return []median{
			{"requests/replaced", "", each(phase.requests)}, {"writes/replaced", "", each(phase.total)},
			{"judge-writes/machine", "", writes(stepJudge)},
			{"cpu", "s", func(f figures) float64 { return f.of(stepReplace).cpu }},
			{"replaced", "s", seconds(stepReplace)}, {"work", "s", func(f figures) float64 { return f.of(stepReplace).work() }},
			{"memory", "MiB", func(f figures) float64 { return f.memory / (1 << 20) }},
		}
	}
	if o.fleet {
		all := o.fleetMedians(seconds)
		if o.floor {
			all = append(all, median{"cpu/floor", "", func(f figures) float64 { return f.cpu / f.floor }},
				median{"floor", "s", func(f figures) float64 { return f.floor }})
		}
		return all
	}
	all := []median{
		{"writes/machine", "", figures.perMachine}, {"cpu", "s", func(f figures) float64 { return f.cpu }},
		{"up", "s", seconds(stepUp)}, {"down", "s", seconds(stepDown)},
	}
	if o.rollout {
		all = append(all, median{"roll", "s", seconds(stepRoll)}, median{"roll-writes/machine", "", writes(stepRoll)})
	}
	return all
}

// fleetMedians are those of --fleet.
func (o options) fleetMedians(seconds func(step string) func(figures) float64) []median {
	each := func(step string, of func(phase) float64) func(figures) float64 {
		n := float64(o.machines)
		if step != stepUp {
			n /= deployments
		}
		return func(f figures) float64 { return of(f.of(step)) / n }
	}
	milliseconds := func(p phase) float64 { return 1000 * p.cpu }
	requests := func(p phase) float64 { return float64(p.requests()) }
	return []median{
		{"heap/machine", "KiB", each(stepUp, func(p phase) float64 { return p.heap / 1024 })},
		{"cpu/machine", "ms", each(stepUp, milliseconds)}, {"requests/machine", "", each(stepUp, requests)},
		{"roll-cpu/replaced", "ms", each(stepRoll, milliseconds)}, {"roll-requests/replaced", "", each(stepRoll, requests)},
		{"deletion-writes/machine", "", each(stepDown, func(p phase) float64 { return float64(p.total()) })},
		{"deletion-reads/machine", "", each(stepDown, func(p phase) float64 { return float64(p.reads) })},
		{"up", "s", seconds(stepUp)}, {"roll", "s", seconds(stepRoll)},
	}
}

// pair says the figure of both arms, and how they compare.
func (m median) pair(measured map[arms.Name][]figures) string {
	of := func(arm arms.Name) float64 {
		values := make([]float64, 0, len(measured[arm]))
		for _, f := range measured[arm] {
			values = append(values, m.pick(f))
		}
		return bench.Median(values)
	}
	ours, theirs, ratio := of(armOurs), of(armCAPI), "-"
	if ours > 0 && theirs > 0 {
		ratio = fmt.Sprintf("%.2f", ours/theirs)
	}
	return fmt.Sprintf("%s %s=%.2f%s %s=%.2f%s ratio=%s", m.name, armOurs, ours, m.unit, armCAPI, theirs, m.unit, ratio)
}
