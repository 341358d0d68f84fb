package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Column is a figure of the last lines, with its ratio between the first two arms.
type Column struct {
	Figure, Unit string
	// Bound is the largest allowed ratio, with AtLeast the smallest, and 0 for none.
	Bound   float64
	AtLeast bool
}

// Summary are the medians of an arm in a case.
type Summary struct {
	Case     string   `json:"case,omitempty"`
	Arm      string   `json:"arm"`
	Runs     int      `json:"runs"`
	Figures  Figures  `json:"figures"`
	Requests Requests `json:"requests"`
}

// Report has the runs of a benchmark and their medians.
type Report struct {
	Name    string    `json:"name"`
	Host    Host      `json:"host"`
	Size    int       `json:"size"`
	Rounds  int       `json:"rounds"`
	Medians []Summary `json:"medians"`
	Runs    []Run     `json:"runs"`
	// Lines are the last lines of the output, which other programs read; an interrupted benchmark has none.
	Lines []string `json:"lines"`

	columns     []Column
	cases, arms []string
}

// NewReport evaluates runs of arms in cases. The first arm is ours, and the second one is what it is compared with.
func NewReport(name string, size, rounds int, cases, arms []string, columns []Column, runs []Run) *Report {
	r := &Report{Name: name, Host: ThisHost(), Size: size, Rounds: rounds, Runs: runs, columns: columns, cases: cases, arms: arms}
	for _, of := range cases {
		for _, arm := range arms {
			own := slices.DeleteFunc(slices.Clone(runs), func(run Run) bool { return run.Case != of || run.Arm != arm })
			if len(own) > 0 {
				s := Summary{Case: of, Arm: arm, Runs: len(own)}
				s.Figures, s.Requests = medians(own)
				r.Medians = append(r.Medians, s)
			}
		}
		r.Lines = append(r.Lines, r.line(of))
	}
	return r
}

// of returns the medians of an arm in a case; they are empty if it was not measured.
func (r *Report) of(of, arm string) Summary {
	for _, s := range r.Medians {
		if s.Case == of && s.Arm == arm {
			return s
		}
	}
	return Summary{}
}

// line has the figures of a case in one line.
func (r *Report) line(of string) string {
	var parts []string
	for _, c := range r.columns {
		words := []string{c.Figure}
		for _, arm := range r.arms {
			words = append(words, arm+"="+c.cell(r.of(of, arm).Figures))
		}
		parts = append(parts, strings.Join(append(words, c.verdict(r.ratio(of, c.Figure))), " "))
	}
	head := r.Name + "-bench: "
	if of != "" {
		head += "case=" + of + " "
	}
	return head + strings.Join(parts, " | ")
}

// cell is a figure as text, "-" if it was not measured.
func (c Column) cell(f Figures) string {
	value, measured := f[c.Figure]
	if !measured {
		return "-"
	}
	return strconv.FormatFloat(value, 'f', 2, 64) + c.Unit
}

// ratio is our figure divided by that of the second arm.
func (r *Report) ratio(of, figure string) (ratio float64, measured bool) {
	if len(r.arms) < 2 {
		return 0, false
	}
	ours, has := r.of(of, r.arms[0]).Figures[figure]
	theirs := r.of(of, r.arms[1]).Figures[figure]
	return ours / theirs, has && theirs > 0
}

// verdict is a ratio as text, and whether it is within its bound.
func (c Column) verdict(ratio float64, measured bool) string {
	text, judged := "ratio=-", "not measured"
	if measured {
		text, judged = fmt.Sprintf("ratio=%.2f", ratio), "missed"
		if ratio == c.Bound || (ratio > c.Bound) == c.AtLeast {
			judged = "met"
		}
	}
	if c.Bound == 0 {
		return text
	}
	return fmt.Sprintf("%s (%s%.2f %s)", text, map[bool]string{false: "<=", true: ">="}[c.AtLeast], c.Bound, judged)
}

// Write prints the report as "json" or text, and then the lines. With JSON, which contains them, the lines go to stderr.
func (r *Report) Write(stdout, stderr io.Writer, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r); err != nil {
			return err
		}
		stdout = stderr
	} else {
		r.table(stdout)
	}
	for _, line := range r.Lines {
		fmt.Fprintln(stdout, line)
	}
	return nil
}

// table has a row for each figure and for each request, and a column for each arm.
func (r *Report) table(w io.Writer) {
	fmt.Fprintf(w, "\n%s: size %d, medians of %d round(s) on %d CPUs, %s, %s\n", r.Name, r.Size, r.Rounds, r.Host.CPUs, r.Host.OS, r.Host.Go)
	for _, of := range r.cases {
		if of != "" {
			fmt.Fprintf(w, "\ncase %s\n", of)
		}
		rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(rows, "\t"+strings.Join(r.arms, "\t")+"\t")
		for _, c := range append(slices.Clone(r.columns), r.others(of)...) {
			r.row(rows, c.Figure, func(arm string) string { return c.cell(r.of(of, arm).Figures) })
		}
		r.requests(rows, of)
		_ = rows.Flush() // fails only if w fails, and then later writes fail too
	}
	fmt.Fprintln(w)
}

// others are the figures of a case that are not in the last lines.
func (r *Report) others(of string) (all []Column) {
	names := map[string]bool{}
	for _, arm := range r.arms {
		for name := range r.of(of, arm).Figures {
			names[name] = !slices.ContainsFunc(r.columns, func(c Column) bool { return c.Figure == name })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] {
			all = append(all, Column{Figure: name})
		}
	}
	return all
}

func (r *Report) row(w io.Writer, name string, cell func(arm string) string) {
	fmt.Fprintf(w, "%s\t", name)
	for _, arm := range r.arms {
		fmt.Fprintf(w, "%s\t", cell(arm))
	}
	fmt.Fprintln(w)
}

// requests are the rows of a case that count requests.
func (r *Report) requests(w io.Writer, of string) {
	names := map[string]bool{}
	for _, arm := range r.arms {
		for step, counts := range r.of(of, arm).Requests {
			for name := range counts {
				names[step+": "+name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		step, request, _ := strings.Cut(name, ": ")
		r.row(w, name, func(arm string) string {
			s := r.of(of, arm)
			if s.Runs == 0 {
				return "-"
			}
			return strconv.FormatFloat(s.Requests[step][request], 'f', -1, 64)
		})
	}
}
