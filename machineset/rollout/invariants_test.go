package rollout_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/machineset/rollout"
)

// census is what the bounds need to know of facts.
type census struct {
	total, available int
	active, going    map[string]int
	machines         map[types.UID]*rollout.Machine
	current          string
	currentSurplus   int
}

func take(f rollout.Facts, d rollout.Decision) census {
	c := census{active: map[string]int{}, going: map[string]int{}, machines: map[types.UID]*rollout.Machine{}, current: d.Current.Name}
	for i := range f.Sets {
		s := &f.Sets[i]
		available, active := 0, 0
		c.total += max(s.Replicas, len(s.Machines)+s.Reserved)
		for j := range s.Machines {
			m := &s.Machines[j]
			c.machines[m.UID] = m
			if m.Deleting || s.Deleting {
				continue
			}
			active++
			if m.Available {
				available++
			}
		}
		going := max(active-s.Replicas, 0)
		c.active[s.Name], c.going[s.Name] = active, going
		c.available += max(available-going, 0) // the worst case: available ones go first
		if s.Name == c.current {
			c.currentSurplus = max(active-going-f.Desired.Or(0), 0)
		}
	}
	return c
}

// broken says which bound of the package a decision breaks, empty for none.
func broken(f rollout.Facts, d rollout.Decision) string {
	if len(d.Replicas) == 0 && !d.Create.Found() {
		return ""
	}
	for _, change := range d.Replicas {
		if change.To < 0 {
			return fmt.Sprintf("%s %d->%d", change.Set, change.From, change.To)
		}
	}
	c := take(f, d)
	if text := createsTooMany(f, d, c); text != "" {
		return text
	}
	if text := namesWrongVictims(d, c); text != "" {
		return text
	}
	if text := passesMarkedOver(f, d, c); text != "" {
		return text
	}
	if text := shrinksTooFar(f, d, c); text != "" {
		return text
	}
	return deletesTooMany(f, d, c)
}

// shrinksTooFar finds a set that has all Machines of the deployment and is lowered below the desired number: it
// would create again what it deletes.
func shrinksTooFar(f rollout.Facts, d rollout.Decision, c census) string {
	if f.Strategy.Type == rollout.InPlaceAuto || f.Strategy.Type == rollout.InPlaceManual {
		return "" // Machines that are moved count apart
	}
	for i := range f.Sets {
		if s := &f.Sets[i]; s.Name != c.current && s.Replicas+len(s.Machines) > 0 {
			return ""
		}
	}
	for _, change := range d.Replicas {
		if change.Set == c.current && change.From >= f.Desired.Or(0) && change.To < f.Desired.Or(0) {
			return fmt.Sprintf("%s %d->%d, and %d are desired", change.Set, change.From, change.To, f.Desired.Or(0))
		}
	}
	return ""
}

func createsTooMany(f rollout.Facts, d rollout.Decision, c census) string {
	raised := d.Create.Or(0)
	frozen, moved := map[string]bool{}, map[string]int{}
	for i := range f.Sets {
		frozen[f.Sets[i].Name] = f.Sets[i].Frozen
		for _, m := range f.Sets[i].Machines {
			if m.InPlace == rollout.Moved {
				raised-- // its set makes room for a Machine that exists
				moved[f.Sets[i].Name]++
			}
		}
	}
	for _, change := range d.Replicas {
		if change.To > change.From {
			raised += change.To - change.From
			if frozen[change.Set] && change.To-change.From > moved[change.Set] {
				return "a frozen set grows"
			}
		}
	}
	if limit := f.Desired.Or(0) + f.Strategy.MaxSurge; raised > 0 && c.total+raised > limit {
		return fmt.Sprintf("creates %d beside %d, and at most %d may exist", raised, c.total, limit)
	}
	return ""
}

func namesWrongVictims(d rollout.Decision, c census) string {
	for _, change := range d.Replicas {
		if want := max(c.active[change.Set]-change.To, 0) - c.going[change.Set]; change.To < change.From && len(change.Victims) != max(want, 0) {
			return fmt.Sprintf("%s %d->%d names %d Machines, want %d", change.Set, change.From, change.To, len(change.Victims), want)
		}
		seen := map[types.UID]bool{}
		for _, v := range change.Victims {
			if m := c.machines[v.UID]; m == nil || m.Deleting || seen[v.UID] {
				return "a victim is unknown, in deletion, or named twice"
			}
			seen[v.UID] = true
		}
	}
	return ""
}

// goesByMarks reports whether a plan may not pass over the marked Machines of a set. It may where an earlier plan counts, and, while the
// rollout is paused, where Machines are missing: the set is lowered by those first.
func (c census) goesByMarks(f rollout.Facts, s *rollout.Set) bool {
	return s.Replicas == c.active[s.Name] || s.Replicas > c.active[s.Name] && !f.Paused
}

func passesMarkedOver(f rollout.Facts, d rollout.Decision, c census) string {
	victims, healthy := map[types.UID]bool{}, false
	for _, change := range d.Replicas {
		for _, v := range change.Victims {
			m := c.machines[v.UID]
			victims[v.UID] = true
			healthy = healthy || m.Available && (!m.Marked || m.Mine)
		}
	}
	for i := range f.Sets {
		s := &f.Sets[i]
		if !c.goesByMarks(f, s) {
			continue
		}
		for _, m := range s.Machines {
			if healthy && m.Marked && !m.Mine && !m.Deleting && !victims[m.UID] {
				return "a healthy Machine goes before " + m.Name + ", which is marked"
			}
		}
	}
	return ""
}

func deletesTooMany(f rollout.Facts, d rollout.Decision, c census) string {
	if f.Strategy.Type != rollout.RollingUpdate || f.Paused {
		return "" // named exceptions
	}
	deleted, current := 0, 0
	for _, change := range d.Replicas {
		for _, v := range change.Victims {
			if c.machines[v.UID].Available {
				deleted++
				if change.Set == c.current {
					current++
				}
			}
		}
	}
	least := f.Desired.Or(0) - f.Strategy.MaxUnavailable
	slack := max(c.available-least, 0)
	if deleted > slack+c.currentSurplus || current > max(slack, c.currentSurplus) {
		return fmt.Sprintf("deletes %d of %d available Machines, %d of the current set, and %d must stay", deleted, c.available, current, least)
	}
	return ""
}
