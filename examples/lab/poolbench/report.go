package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// figures are the costs of one arm.
type figures struct {
	Arm armName `json:"arm"`
	// Seconds are from the pool's creation until all instances have a node reference and are ready.
	Seconds float64 `json:"seconds"`
	// CPUSeconds is the CPU time of the program in that time.
	CPUSeconds float64 `json:"cpuSeconds"`
	// Requests are the requests of the program in that time, by verb and resource, without watches and Leases.
	Requests map[string]int `json:"requests"`
	// Steady are the requests per minute afterwards.
	Steady float64 `json:"steadyPerMinute"`
	// Reordered are the requests while the provider reports the same instances in other orders, reorders times.
	Reordered int `json:"reordered"`
}

func (f *figures) total() int {
	sum := 0
	for _, n := range f.Requests {
		sum += n
	}
	return sum
}

func (f *figures) String() string {
	return fmt.Sprintf("%.1f s, %d requests, %.1f s of CPU, then %.0f requests a minute, and %d for %d other orders of the list",
		f.Seconds, f.total(), f.CPUSeconds, f.Steady, f.Reordered, reorders)
}

type report struct {
	Host      bench.Host `json:"host"`
	Instances int        `json:"instances"`
	// Machines: each instance has a Machine, which the program reconciles too.
	Machines bool       `json:"machines"`
	Arms     []*figures `json:"arms"`
}

// bound is the target for our requests divided by Cluster API's. Both write each Node once. Without Machines these
// writes are nearly all requests of both, so the target cannot be reached.
const bound = 1.0 / 3

func (r *report) table(out io.Writer) {
	kind := map[bool]string{true: " with a Machine each"}[r.Machines]
	fmt.Fprintf(out, "A pool of %d instances%s, on %d CPUs, %s\n\n", r.Instances, kind, r.Host.CPUs, r.Host.Go)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "arm\tto all references\tCPU\trequests\tbeside one per Node\tat rest, per minute\tlist reordered\t")
	for _, f := range r.Arms {
		fmt.Fprintf(w, "%s\t%.1f s\t%.1f s\t%d\t%d\t%.0f\t%d\t\n", f.Arm, f.Seconds, f.CPUSeconds, f.total(), f.total()-r.Instances,
			f.Steady, f.Reordered)
	}
	_ = w.Flush() // fails only if out fails, and then later writes fail too
	for _, f := range r.Arms {
		fmt.Fprintf(out, "\n%s:\n", f.Arm)
		for _, what := range slices.Sorted(maps.Keys(f.Requests)) {
			fmt.Fprintf(out, "  %6d %s\n", f.Requests[what], what)
		}
	}
	fmt.Fprintln(out)
}

// ratio is our requests divided by Cluster API's; false if one of them was not measured.
func (r *report) ratio() (float64, bool) {
	ours := slices.IndexFunc(r.Arms, func(f *figures) bool { return f.Arm == armOurs })
	theirs := slices.IndexFunc(r.Arms, func(f *figures) bool { return f.Arm == armCAPI })
	if ours < 0 || theirs < 0 || r.Arms[theirs].total() == 0 {
		return 0, false
	}
	return float64(r.Arms[ours].total()) / float64(r.Arms[theirs].total()), true
}

func (r *report) target() string {
	ratio, measured := r.ratio()
	switch {
	case !measured:
		return ownName + ": requests not measured"
	case ratio <= bound:
		return fmt.Sprintf("%s: requests ratio=%.2f (<=%.2f met)", ownName, ratio, bound)
	}
	return fmt.Sprintf("%s: requests ratio=%.2f (<=%.2f missed)", ownName, ratio, bound)
}
