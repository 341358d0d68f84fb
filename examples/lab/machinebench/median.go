package main

import (
	"maps"
	"math"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// medians computes the median of every figure separately, so that the result need not be one of the rounds.
func medians(all []figures) figures {
	m := figures{
		Machines: count(all, func(f *figures) int { return f.Machines }),
		Create:   medianPhase(all, func(f *figures) *phase { return &f.Create }),
		Delete:   medianPhase(all, func(f *figures) *phase { return &f.Delete }),
	}
	var heaps []heap
	var steady []rests
	for i := range all {
		if all[i].Heap != nil {
			heaps = append(heaps, *all[i].Heap)
		}
		if all[i].Steady != nil {
			steady = append(steady, *all[i].Steady)
		}
	}
	if len(heaps) > 0 {
		m.Heap = &heap{
			Empty:       of(heaps, func(h *heap) float64 { return h.Empty }),
			Full:        of(heaps, func(h *heap) float64 { return h.Full }),
			PerMachine:  of(heaps, func(h *heap) float64 { return h.PerMachine }),
			PodsPerNode: count(heaps, func(h *heap) int { return h.PodsPerNode }),
		}
	}
	if len(steady) > 0 {
		m.Steady = &rests{
			Seconds: of(steady, func(r *rests) float64 { return r.Seconds }),
			Writes:  count(steady, func(r *rests) int { return r.Writes }),
			Reads:   count(steady, func(r *rests) int { return r.Reads }),
			Watches: count(steady, func(r *rests) int { return r.Watches }),
		}
	}
	return m
}

func medianPhase(all []figures, pick func(*figures) *phase) phase {
	return phase{
		Wall:      of(all, func(f *figures) float64 { return pick(f).Wall }),
		CPU:       of(all, func(f *figures) float64 { return pick(f).CPU }),
		Writes:    medianCounts(all, func(f *figures) map[string]float64 { return pick(f).Writes }),
		Reads:     medianCounts(all, func(f *figures) map[string]float64 { return pick(f).Reads }),
		Watches:   medianCounts(all, func(f *figures) map[string]float64 { return pick(f).Watches }),
		Conflicts: count(all, func(f *figures) int { return pick(f).Conflicts }),
	}
}

// medianCounts counts a resource that is missing in a round as 0 in that round.
func medianCounts(all []figures, pick func(*figures) map[string]float64) map[string]float64 {
	resources := map[string]bool{}
	for i := range all {
		for resource := range pick(&all[i]) {
			resources[resource] = true
		}
	}
	counts := map[string]float64{}
	for resource := range maps.Keys(resources) {
		counts[resource] = of(all, func(f *figures) float64 { return pick(f)[resource] })
	}
	return counts
}

func of[T any](all []T, value func(*T) float64) float64 {
	values := make([]float64, 0, len(all))
	for i := range all {
		values = append(values, value(&all[i]))
	}
	return bench.Median(values)
}

func count[T any](all []T, value func(*T) int) int {
	return int(math.Round(of(all, func(one *T) float64 { return float64(value(one)) })))
}
