package simulation

import (
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// faultPrefix begins the names of faults in a Coverage.
const faultPrefix = "fault "

// Coverage counts by name. What could have happened, and did not, may be in it with zero.
type Coverage map[string]int

// counted adds the results of the steps that a manager has counted in its metrics, and those with zero: steps that could have run.
func (c Coverage) counted(metrics prometheus.Gatherer) {
	_ = everyMetric(metrics, func(name string, labels map[string]string, n int) { // what cannot be gathered is not counted
		if strings.HasSuffix(name, "_step_results_total") {
			c[fmt.Sprintf("step %s %s %s", labels["controller"], labels["step"], labels["result"])] += n
		}
	})
}

// everyMetric passes each gauge and each counter on, with the name of its family and with its labels.
func everyMetric(of prometheus.Gatherer, do func(name string, labels map[string]string, n int)) error {
	families, err := of.Gather()
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			do(family.GetName(), labels, int(m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return err
}

// add adds what one history had.
func (c Coverage) add(w *World) {
	for name, n := range w.seen {
		c[name] += n
	}
	for name, has := range w.traits() {
		if has {
			c["trait "+name]++
		}
	}
}

// Print prints how often what was seen, and what the histories cost.
func (r Report) Print(to io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(r.Seen)) {
		if n := r.Seen[name]; n > 0 {
			_, _ = fmt.Fprintf(to, "%8d  %s\n", n, name)
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	_, _ = fmt.Fprintf(to, "%d histories with %d events, %.1f a second, %d MiB of memory at most\n", r.Histories, r.Events, r.rate(),
		memory.Sys>>20)
}

// Never returns the faults, traits and steps, and of some reasons of conditions those, that no history had.
func (r Report) Never(reasons []string) []string {
	had := Coverage{}
	for name, n := range r.Seen {
		last := strings.LastIndex(name, " ")
		switch kind, _, _ := strings.Cut(name, " "); kind {
		case "reason": // of a kind and a condition
			name = kind + name[last:]
		case "step": // with a result
			name = name[:last]
		}
		had[name] += n
	}
	for _, reason := range reasons {
		had["reason "+reason] += 0
	}
	for _, f := range AllFaults() {
		had[faultPrefix+string(f)] += 0
	}
	for trait := range (&World{}).traits() {
		had["trait "+trait] += 0
	}
	maps.DeleteFunc(had, func(_ string, n int) bool { return n > 0 })
	return slices.Sorted(maps.Keys(had))
}
