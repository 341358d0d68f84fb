package main

import "fmt"

// target is the bound of a ratio of two figures.
type target struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty"`
	// Of names the two figures, and Ratio is the first divided by the second. They are nil if they were not measured.
	Of     [2]string   `json:"of"`
	Values [2]*float64 `json:"values"`
	Ratio  *float64    `json:"ratio,omitempty"`
	// Bound is the largest allowed ratio; with AtLeast, the smallest.
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"atLeast,omitempty"`
	Met     bool    `json:"met"`
}

// The bounds of our figures divided by Cluster API's.
const (
	writesBound = 0.5
	cpuBound    = 0.2
	heapBound   = 0.5
	rateBound   = 2
	// sameBound is how much larger a request count may be without limits than with limits and still count as equal,
	// because events may or may not be combined.
	sameBound = 1.1
)

// targetsOf compares the medians of both arms with the same limits; nil is an arm that was not measured.
func targetsOf(ours, theirs *figures) []target {
	pair := func(name, unit string, bound float64, pick func(*figures) float64) target {
		return target{
			Name: name, Unit: unit, Of: [2]string{string(armOurs), string(armCAPI)}, Bound: bound,
			Values: [2]*float64{value(ours, pick), value(theirs, pick)},
		}
	}
	heap := pair("heap/machine", "KiB", heapBound, nil)
	heap.Values = [2]*float64{kibibytes(ours), kibibytes(theirs)}
	rate := pair("rate", "/s", rateBound, (*figures).rate)
	rate.AtLeast = true
	all := []target{
		pair("writes/machine", "", writesBound, (*figures).writes), pair("cpu/machine", "ms", cpuBound, milliseconds), heap, rate,
	}
	for i := range all {
		all[i].judge()
	}
	return all
}

// sameCounts compares our counts without limits with those with limits.
func sameCounts(without, with *figures) []target {
	pair := func(name string, pick func(*figures) float64) target {
		t := target{
			Name: name, Of: [2]string{string(limitOff), string(limitDefault)}, Bound: sameBound,
			Values: [2]*float64{value(without, pick), value(with, pick)},
		}
		t.judge()
		return t
	}
	return []target{pair("our writes/machine", (*figures).writes), pair("our reads/machine", (*figures).reads)}
}

func (t *target) judge() {
	first, second := t.Values[0], t.Values[1]
	switch {
	case first == nil || second == nil:
		return
	case *second > 0:
		t.Ratio = new(*first / *second)
	case *first == 0:
		t.Ratio = new(1.0) // zero divided by zero counts as equal
	default:
		return
	}
	t.Met = *t.Ratio <= t.Bound
	if t.AtLeast {
		t.Met = *t.Ratio >= t.Bound
	}
}

func value(f *figures, pick func(*figures) float64) *float64 {
	if f == nil || pick == nil {
		return nil
	}
	return new(pick(f))
}

func milliseconds(f *figures) float64 { return 1000 * f.cpu() }

func kibibytes(f *figures) *float64 {
	if f == nil || f.Heap == nil {
		return nil
	}
	return new(f.Heap.PerMachine / 1024)
}

func (t target) String() string {
	verdict := "not measured"
	ratio := "-"
	if t.Ratio != nil {
		verdict, ratio = "missed", fmt.Sprintf("%.2f", *t.Ratio)
		if t.Met {
			verdict = "met"
		}
	}
	relation := "<="
	if t.AtLeast {
		relation = ">="
	}
	return fmt.Sprintf("%s %s=%s %s=%s ratio=%s (%s%.2f %s)",
		t.Name, t.Of[0], t.figure(t.Values[0]), t.Of[1], t.figure(t.Values[1]), ratio, relation, t.Bound, verdict)
}

func (t target) figure(f *float64) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%s", *f, t.Unit)
}
