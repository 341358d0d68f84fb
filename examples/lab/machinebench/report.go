package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// measured is one run: an arm at its limits in a round.
type measured struct {
	Arm     armName   `json:"arm"`
	Limits  limitName `json:"limits"`
	Round   int       `json:"round"`
	Figures *figures  `json:"figures,omitempty"` // nil when it failed
	Error   string    `json:"error,omitempty"`
}

// report has the results and their evaluation.
type report struct {
	Host     bench.Host `json:"host"`
	Machines int        `json:"machines"`
	Rounds   int        `json:"rounds"`
	Limits   []compared `json:"limits"`
	// Same compares our own counts without limits with those at default limits; nil unless both were measured.
	Same  []target   `json:"same,omitempty"`
	Runs  []measured `json:"runs"`
	Lines []string   `json:"lines"`
}

// compared are the medians for some limits.
type compared struct {
	Limits  limitName `json:"limits"`
	Arms    []summary `json:"arms"`
	Targets []target  `json:"targets"`
}

// summary is an arm with some limits.
type summary struct {
	Arm     armName  `json:"arm"`
	Fleets  int      `json:"fleets"` // in the medians
	Failed  int      `json:"failed"`
	Medians *figures `json:"medians,omitempty"` // nil without a fleet
}

func newReport(o options, runs []measured) *report {
	r := &report{Host: bench.ThisHost(), Machines: o.machines, Rounds: o.rounds, Runs: runs}
	for _, l := range o.limits {
		c := compared{Limits: l}
		for _, a := range o.arms {
			c.Arms = append(c.Arms, summarize(runs, l, a))
		}
		c.Targets = targetsOf(c.of(armOurs), c.of(armCAPI))
		r.Limits = append(r.Limits, c)
	}
	if len(r.Limits) == len(limitNames()) && slices.Contains(o.arms, armOurs) {
		r.Same = sameCounts(r.Limits[1].of(armOurs), r.Limits[0].of(armOurs))
	}
	r.Lines = r.lines()
	return r
}

func summarize(runs []measured, l limitName, a armName) summary {
	s := summary{Arm: a}
	var all []figures
	for _, run := range runs {
		switch {
		case run.Limits != l || run.Arm != a:
		case run.Figures == nil:
			s.Failed++
		default:
			all = append(all, *run.Figures)
		}
	}
	if s.Fleets = len(all); s.Fleets > 0 {
		s.Medians = new(medians(all))
	}
	return s
}

// of returns the medians of an arm, nil if it was not measured.
func (c compared) of(a armName) *figures {
	for _, s := range c.Arms {
		if s.Arm == a {
			return s.Medians
		}
	}
	return nil
}

// lines are the last lines of the output, which other programs read.
func (r *report) lines() []string {
	var lines []string
	join := func(head string, targets []target) {
		parts := make([]string, 0, len(targets))
		for _, t := range targets {
			parts = append(parts, t.String())
		}
		lines = append(lines, ownName+": "+head+strings.Join(parts, " | "))
	}
	for _, c := range r.Limits {
		join("limits="+string(c.Limits)+" ", c.Targets)
	}
	if r.Same != nil {
		join("", r.Same)
	}
	return lines
}

// write prints the report. An interrupted run has no final lines.
func (r *report) write(stdout, stderr io.Writer, format string, complete bool) error {
	if !complete {
		r.Lines = nil
	}
	return bench.Print(stdout, stderr, format, r, r.tables, r.Lines...)
}

func (r *report) tables(w io.Writer) {
	fmt.Fprintf(w, "\n%d Machines, medians of %d round(s) on %d CPUs, %s, %s\n", r.Machines, r.Rounds, r.Host.CPUs, r.Host.OS, r.Host.Go)
	for _, c := range r.Limits {
		fmt.Fprintf(w, "\nlimits: %s\n", c.Limits)
		columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(columns, "arm\thalf\twall\tmachines/s\twrites/machine\treads/machine\tconflicts\t"+
			"CPU ms/machine\theap KiB/machine\theap MiB empty\tfull\t")
		for _, s := range c.Arms {
			s.rows(columns)
		}
		_ = columns.Flush()
		c.requests(w)
	}
	fmt.Fprintln(w)
}

// rows are the rows of an arm: creation, deletion, and both.
func (s summary) rows(w io.Writer) {
	m := s.Medians
	if m == nil {
		what := "not measured"
		if s.Failed > 0 {
			what = "failed"
		}
		fmt.Fprintf(w, "%s\t%s\t\n", s.Arm, what)
		return
	}
	half := func(name string, p *phase) {
		fmt.Fprintf(w, "%s\t%s\t%.1fs\t%.1f\t%.2f\t%.2f\t%d\t%.2f\t\t\t\t\n", s.Arm, name, p.Wall, perSecond(m.Machines, p.Wall),
			sum(p.Writes), sum(p.Reads), p.Conflicts, 1000*p.CPU)
	}
	half("create", &m.Create)
	half("delete", &m.Delete)
	live := "-\t-\t-"
	if h := m.Heap; h != nil {
		live = fmt.Sprintf("%.1f\t%.1f\t%.1f", h.PerMachine/1024, h.Empty/(1<<20), h.Full/(1<<20))
	}
	fmt.Fprintf(w, "%s\t%s\t%.1fs\t%.1f\t%.2f\t%.2f\t%d\t%.2f\t%s\t\n", s.Arm, "both", m.wall(), m.rate(), m.writes(), m.reads(),
		m.Create.Conflicts+m.Delete.Conflicts, 1000*m.cpu(), live)
}

// requests prints the writes and reads per Machine, by resource.
func (c compared) requests(w io.Writer) {
	for _, s := range c.Arms {
		if s.Medians == nil {
			continue
		}
		m := s.Medians
		fmt.Fprintf(w, "%s, per Machine:\n", s.Arm)
		for _, list := range []struct {
			what   string
			counts map[string]float64
		}{
			{"create, writes", m.Create.Writes}, {"create, reads", m.Create.Reads}, {"create, watches", m.Create.Watches},
			{"delete, writes", m.Delete.Writes}, {"delete, reads", m.Delete.Reads}, {"delete, watches", m.Delete.Watches},
		} {
			fmt.Fprintf(w, "  %s: %s\n", list.what, listed(list.counts))
		}
		if r := m.Steady; r != nil {
			fmt.Fprintf(w, "  all Running and %.0f s of rest: %d writes, %d reads, %d watches in all\n", r.Seconds, r.Writes, r.Reads, r.Watches)
		}
	}
}

// listed returns counts in one line, largest first.
func listed(counts map[string]float64) string {
	resources := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(resources, func(a, b string) int {
		switch {
		case counts[a] > counts[b]:
			return -1
		case counts[a] < counts[b]:
			return 1
		}
		return 0
	})
	parts := make([]string, 0, len(resources))
	for _, resource := range resources {
		parts = append(parts, fmt.Sprintf("%s %.2f", resource, counts[resource]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// failure returns the errors of failed runs; nil if none failed.
func (r *report) failure() error {
	var errs []error
	for _, run := range r.Runs {
		if run.Error != "" {
			errs = append(errs, fmt.Errorf("%s, limits %s, round %d: %s", run.Arm, run.Limits, run.Round, run.Error))
		}
	}
	return errors.Join(errs...)
}
