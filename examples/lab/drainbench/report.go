package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// report is what was measured, and what is said about it.
type report struct {
	Host      bench.Host `json:"host"`
	Rounds    int        `json:"rounds"`
	Scenarios []compared `json:"scenarios"`
	Runs      []measured `json:"runs"`
	Line      string     `json:"line"`
}

// compared are the medians of a scenario.
type compared struct {
	Number int       `json:"number"`
	Title  string    `json:"title"`
	Arms   []summary `json:"arms"`
}

// summary is an arm in a scenario.
type summary struct {
	Arm     armName  `json:"arm"`
	Drains  int      `json:"drains"` // that the medians are of
	Failed  int      `json:"failed"`
	Medians *figures `json:"medians,omitempty"` // nil without a drain
}

func newReport(o options, runs []measured) *report {
	r := &report{
		Host:   bench.ThisHost(),
		Rounds: o.rounds, Runs: runs,
	}
	for _, s := range o.scenarios {
		c := compared{Number: s.number, Title: s.title}
		for _, a := range s.arms {
			c.Arms = append(c.Arms, summarize(runs, s.number, a))
		}
		r.Scenarios = append(r.Scenarios, c)
	}
	r.Line = r.line()
	return r
}

func summarize(runs []measured, number int, a armName) summary {
	s := summary{Arm: a}
	var all []figures
	for _, run := range runs {
		switch {
		case run.Scenario != number || run.Arm != a:
		case run.Figures == nil:
			s.Failed++
		default:
			all = append(all, *run.Figures)
		}
	}
	if s.Drains = len(all); s.Drains > 0 {
		m := medians(all)
		s.Medians = &m
	}
	return s
}

// The scenarios that the last line speaks of.
const (
	lineScenario  = 1
	wrongScenario = 5
)

// line is the last line of the output: others read it.
func (r *report) line() string {
	value := func(number int, a armName, format func(*figures) string) string {
		for _, s := range r.Scenarios {
			for _, arm := range s.Arms {
				if s.Number == number && arm.Arm == a && arm.Medians != nil {
					return format(arm.Medians)
				}
			}
		}
		return "-"
	}
	perPod := func(f *figures) string { return fmt.Sprintf("%.2f", f.PerPod) }
	wall := func(f *figures) string { return f.wall() }
	wrong := func(f *figures) string { return fmt.Sprint(f.WrongNode) }
	return fmt.Sprintf("drain-bench: requests/pod ours=%s kubectl=%s capi=%s | wall ours=%s kubectl=%s capi=%s | "+
		"wrong-node evictions ours=%s kubectl=%s",
		value(lineScenario, armOurs, perPod), value(lineScenario, armKubectl, perPod), value(lineScenario, armCAPI, perPod),
		value(lineScenario, armOurs, wall), value(lineScenario, armKubectl, wall), value(lineScenario, armCAPI, wall),
		value(wrongScenario, armOurs, wrong), value(wrongScenario, armKubectl, wrong))
}

// write prints the report. The line is the end of what was asked for, so an interrupted run has none.
func (r *report) write(stdout, stderr io.Writer, format string, complete bool) error {
	if !complete {
		r.Line = ""
		return bench.Print(stdout, stderr, format, r, r.table)
	}
	return bench.Print(stdout, stderr, format, r, r.table, r.Line)
}

func (r *report) table(w io.Writer) {
	fmt.Fprintf(w, "\nMedians of %d round(s) on %d CPUs, %s, %s\n", r.Rounds, r.Host.CPUs, r.Host.OS, r.Host.Go)
	for _, s := range r.Scenarios {
		fmt.Fprintf(w, "\n(%d) %s\n", s.Number, s.Title)
		columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(columns, "arm\twall\tlast eviction\tpods gone\treaction\trequests/pod\tevict\tget\tlist\twatch\tpatch\tother\t429\t"+
			"wrong-node\tduplicates\tstanding\t")
		for _, a := range s.Arms {
			fmt.Fprintln(columns, a.row())
		}
		_ = columns.Flush()
	}
	fmt.Fprintln(w)
}

func (s summary) row() string {
	m := s.Medians
	if m == nil {
		what := "not measured"
		if s.Failed > 0 {
			what = "failed"
		}
		return fmt.Sprintf("%s\t%s\t", s.Arm, what)
	}
	reacted := "-"
	if m.Reaction != nil {
		reacted = fmt.Sprintf("%.2fs", *m.Reaction)
	}
	gone := seconds(m.PodsGone)
	if m.Left > 0 {
		gone = fmt.Sprintf("%d left", m.Left)
	}
	q := m.Requests
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%.2f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d (%d)\t%d\t",
		s.Arm, m.wall(), seconds(m.LastEviction), gone, reacted, m.PerPod,
		q.Evict, q.Get, q.List, q.Watch, q.Patch, q.Other, m.TooMany, m.WrongNode, m.Duplicates, m.MaxDuplicates, m.Standing)
}

// failure names the drains that failed; nil if none did.
func (r *report) failure() error {
	var errs []error
	for _, run := range r.Runs {
		if run.Error != "" {
			errs = append(errs, fmt.Errorf("scenario %d, %s, round %d: %s", run.Scenario, run.Arm, run.Round, run.Error))
		}
	}
	return errors.Join(errs...)
}
