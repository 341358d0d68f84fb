package main

import (
	"math"

	"github.com/machinist-dev/machinist/examples/lab/bench"
)

// medians takes the median of every figure by itself, so that the result need not be one of the rounds.
func medians(all []figures) figures {
	of := func(value func(*figures) float64) float64 {
		values := make([]float64, 0, len(all))
		for i := range all {
			values = append(values, value(&all[i]))
		}
		return bench.Median(values)
	}
	count := func(value func(*figures) int) int {
		return int(math.Round(of(func(f *figures) float64 { return float64(value(f)) })))
	}
	m := figures{
		Pods:         count(func(f *figures) int { return f.Pods }),
		Wall:         of(func(f *figures) float64 { return f.Wall }),
		Left:         count(func(f *figures) int { return f.Left }),
		LastEviction: of(func(f *figures) float64 { return f.LastEviction }),
		PodsGone:     of(func(f *figures) float64 { return f.PodsGone }),
		Requests: requests{
			Evict: count(func(f *figures) int { return f.Requests.Evict }),
			Get:   count(func(f *figures) int { return f.Requests.Get }),
			List:  count(func(f *figures) int { return f.Requests.List }),
			Watch: count(func(f *figures) int { return f.Requests.Watch }),
			Patch: count(func(f *figures) int { return f.Requests.Patch }),
			Other: count(func(f *figures) int { return f.Requests.Other }),
		},
		PerPod:        of(func(f *figures) float64 { return f.PerPod }),
		Standing:      count(func(f *figures) int { return f.Standing }),
		TooMany:       count(func(f *figures) int { return f.TooMany }),
		WrongNode:     count(func(f *figures) int { return f.WrongNode }),
		Duplicates:    count(func(f *figures) int { return f.Duplicates }),
		MaxDuplicates: count(func(f *figures) int { return f.MaxDuplicates }),
	}
	var reactions []float64
	for i := range all {
		if all[i].Reaction != nil {
			reactions = append(reactions, *all[i].Reaction)
		}
	}
	if len(reactions) > 0 {
		m.Reaction = new(bench.Median(reactions))
	}
	return m
}
