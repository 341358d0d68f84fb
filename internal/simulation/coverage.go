package simulation

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"
)

// faultPrefix begins the names of faults in a Coverage.
const faultPrefix = "fault "

// Coverage counts by name. What could have happened, and did not, may be in it with zero.
type Coverage map[string]int

// counted adds the results of the steps that a manager has counted in its metrics, and those with zero: steps that could have run.
func (c Coverage) counted(metrics prometheus.Gatherer) {
	families, _ := metrics.Gather() // what cannot be gathered is not counted
	for _, family := range families {
		if !strings.HasSuffix(family.GetName(), "_step_results_total") {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			c[fmt.Sprintf("step %s %s %s", labels["controller"], labels["step"], labels["result"])] += int(m.GetCounter().GetValue())
		}
	}
}

// add adds what one history had, and the pairs of its faults.
func (c Coverage) add(seen Coverage) {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		c[name] += seen[name]
		if fault, is := strings.CutPrefix(name, faultPrefix); is {
			faults = append(faults, fault)
		}
	}
	for i, one := range faults {
		for _, other := range faults[i+1:] {
			c["pair "+one+" + "+other]++
		}
	}
}

// Print prints how often what was seen, and what was never seen of all faults and their pairs, of the steps, and of the Reasons.
func (r Report) Print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(r.Seen)) {
		if r.Seen[name] > 0 && !strings.HasPrefix(name, "pair ") {
			_, _ = fmt.Fprintf(w, "%s\t%d\n", name, r.Seen[name])
		}
	}
	for _, name := range r.Never() {
		_, _ = fmt.Fprintf(w, "%s\tnever\n", name)
	}
	return w.Flush()
}

// Never returns the faults, pairs of faults, steps and Reasons that no history had.
func (r Report) Never() []string {
	var never []string
	faults := make([]string, 0, len(AllFaults()))
	for _, f := range AllFaults() {
		faults = append(faults, string(f))
	}
	slices.Sort(faults)
	for i, one := range faults {
		if r.Seen[faultPrefix+one] == 0 {
			never = append(never, faultPrefix+one)
		}
		for _, other := range faults[i+1:] {
			if name := "pair " + one + " + " + other; r.Seen[name] == 0 {
				never = append(never, name)
			}
		}
	}
	return append(never, r.neverSaid()...)
}

// neverSaid returns the steps that never ran, and the Reasons that no condition had.
func (r Report) neverSaid() []string {
	var never []string
	said, ran := map[string]bool{}, map[string]bool{}
	for name, n := range r.Seen {
		kind, rest, _ := strings.Cut(name, " ")
		last := rest[strings.LastIndex(rest, " ")+1:]
		switch {
		case kind == "reason":
			said[last] = true
		case kind == "step":
			step := strings.TrimSuffix(rest, " "+last)
			ran[step] = ran[step] || n > 0
		}
	}
	for _, step := range slices.Sorted(maps.Keys(ran)) {
		if !ran[step] {
			never = append(never, "step "+step)
		}
	}
	for _, reason := range slices.Sorted(slices.Values(r.Reasons)) {
		if !said[reason] {
			never = append(never, "reason "+reason)
		}
	}
	return never
}
