package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// ofClouds are what a cloud does by itself.
func ofClouds() []disturbance {
	return []disturbance{
		{CloudForgets, (*World).cloudForgets}, {CloudLoses, (*World).cloudLoses}, {CloudReportsHalf, (*World).cloudReportsHalf},
		{CloudIsSlow, (*World).cloudIsSlow}, {CloudKeeps, (*World).cloudKeeps}, {CloudRenames, (*World).cloudRenames},
		{CloudRefuses, (*World).cloudRefuses},
	}
}

// beginHabit begins a habit of one instance, for a time.
func (w *World) beginHabit(what string, times map[string]time.Time) {
	all := w.instances()
	if len(all) == 0 {
		return
	}
	if leaving := slices.DeleteFunc(slices.Clone(all), w.stays); len(leaving) > 0 && w.choices.pick(2) == 0 {
		all = leaving
	}
	i := all[w.choices.pick(len(all))]
	lasts := []time.Duration{20 * time.Second, 3 * time.Minute, 20 * time.Minute}[w.choices.pick(3)]
	times[i.Token] = w.Now().Add(lasts)
	w.note("cloud", fmt.Sprintf("%s %s for %s", what, i.Name, lasts), "")
}

// stays reports whether no Machine of an instance is being deleted: what goes wrong in deletions matters most.
func (w *World) stays(i cloud.Instance) bool {
	return !slices.ContainsFunc(w.ours(), func(m *unstructured.Unstructured) bool {
		return m.GetDeletionTimestamp() != nil && isOwn(m, i)
	})
}

func (w *World) cloudForgets(context.Context)     { w.beginHabit("does not show", w.habits.hidden) }
func (w *World) cloudReportsHalf(context.Context) { w.beginHabit("shows half of", w.habits.half) }
func (w *World) cloudIsSlow(context.Context)      { w.beginHabit("is still creating", w.habits.slow) }
func (w *World) cloudKeeps(context.Context)       { w.beginHabit("does not delete", w.habits.kept) }

func (w *World) cloudRenames(context.Context) {
	w.habits.renamed = !w.habits.renamed
	w.note("cloud", fmt.Sprintf("writes provider IDs in upper case: %t", w.habits.renamed), "")
}

// cloudLoses: the hardware of an instance is gone.
func (w *World) cloudLoses(context.Context) {
	if all := w.instances(); len(all) > 0 {
		i := all[w.choices.pick(len(all))]
		w.habits.nodes[i.Name] = true
		w.cloud.Lose(i.Token)
		w.note("cloud", "loses "+i.Name, "")
	}
}

// cloudRefuses: a quota is used up, credentials are wrong for a while, there are too many calls, or the cloud says of a creation that it
// never will succeed.
func (w *World) cloudRefuses(context.Context) {
	h := w.habits
	kinds := []cloud.Class{cloud.Exhausted, cloud.Invalid, cloud.Terminal, cloud.RateLimited, cloud.Unauthenticated, cloud.Unavailable}
	n := w.choices.pick(len(kinds))
	h.refuses, h.creates = kinds[n], n < 3
	lasts := []time.Duration{time.Minute, 10 * time.Minute}[w.choices.pick(2)]
	h.until = w.Now().Add(lasts)
	w.note("cloud", fmt.Sprintf("refuses calls for %s: %s", lasts, h.refuses), "")
}
