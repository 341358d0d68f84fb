package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// ofClouds are what a cloud does by itself.
func ofClouds() []disturbance {
	all := []disturbance{
		{CloudLoses, (*World).cloudLoses}, {CloudRenames, (*World).cloudRenames}, {CloudCreatesTwice, nil}, {CloudLies, nil},
	}
	for _, one := range allHabits() {
		all = append(all, disturbance{one.fault, func(w *World, _ context.Context) { w.beginHabit(one) }})
	}
	return all
}

// beginHabit begins a habit, for a time.
func (w *World) beginHabit(one habit) {
	h, token, name := w.habits, "", "all calls"
	if all := w.instances(); !one.toAll {
		if len(all) == 0 {
			return
		}
		stays := func(i cloud.Instance) bool {
			return w.holderOf(i) == nil || w.holderOf(i).GetDeletionTimestamp() == nil
		}
		if leaving := slices.DeleteFunc(slices.Clone(all), stays); len(leaving) > 0 && w.choices.pick(2) == 0 {
			all = leaving // what goes wrong in deletions matters most
		}
		i := all[w.choices.pick(len(all))]
		token, name = i.Token, i.Name
		h.nodes[name] = h.nodes[name] || one.fault == CloudMoves // its Machine takes the Node for another one's
	}
	if one.fault == CloudRefuses {
		ops := []cloud.Operation{cloud.OpCreate, cloud.OpCreate, "", cloud.OpGet, cloud.OpDelete, cloud.OpList}
		h.class, h.refused = classes()[w.choices.pick(len(classes()))], ops[w.choices.pick(len(ops))]
		name = fmt.Sprintf("%s calls: %s", cmp.Or(h.refused, "all"), h.class)
	}
	lasts := []time.Duration{time.Second, 3 * time.Minute, 10 * time.Minute, 20 * time.Minute}[w.choices.pick(4)]
	h.of(token).until[one.fault] = w.Now().Add(lasts)
	w.note("cloud", fmt.Sprintf("%s %s for %s", one.what, name, lasts), "")
}

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

// twinSuffix is what the token of a second instance has in the store of the cloud. Nothing but the World sees it.
const twinSuffix = "/twin"

// tokenOf is the token of an instance as its tag says it.
func tokenOf(i cloud.Instance) string { return strings.TrimSuffix(i.Token, twinSuffix) }

// storedScheme begins provider IDs in the store of the cloud, and movedScheme those of instances whose ID has changed.
const (
	storedScheme = "fake://"
	movedScheme  = "moved://m-"
)

// storedID is a provider ID as the store of the cloud has it, whatever its form.
func storedID(id string) string {
	return strings.Replace(strings.ToLower(id), movedScheme, storedScheme, 1)
}

// sameID compares provider IDs whatever their form.
func sameID(a, b string) bool { return a != "" && storedID(a) == storedID(b) }

// isLeft reports whether the deletion of a Machine cannot know of an instance: the cloud has said that it is gone, has made it again with a
// request that was late, or has made two for a Machine that has recorded neither.
func (h *habits) isLeft(m *unstructured.Unstructured, i cloud.Instance) bool {
	f := h.of(i.Token)
	return f.lied || f.stray || h.of(string(m.GetUID())).doubled && providerIDIn(m) == ""
}

// saidGone reports whether the cloud has said that an instance is gone so often that a Machine believes it.
func (h *habits) saidGone(token string) bool {
	return h.of(token).denied >= surelyGone || h.of(token).lied
}

// surelyGone is how many looks it takes until an instance that ran is believed to be gone. See instance.Decide.
const surelyGone = 3

// hidesNode reports whether nothing leads from a Machine to the Node of its instance: it is believed to be gone, or has had another ID.
func (h *habits) hidesNode(token string) bool {
	return h.saidGone(token) || !h.of(token).until[CloudMoves].IsZero()
}

// later returns what carries a creation or a deletion out after its sender has given up; nil for others, and of a habits that is nil. A
// creation may make an instance again that is gone: nothing but a Collector finds it.
func (h *habits) later(op cloud.Operation, r *cloud.Request, call func() error) func() error {
	if h == nil || op != cloud.OpCreate && op != cloud.OpDelete {
		return nil
	}
	return func() error {
		f, made := h.of(r.Token), h.world.cloud.Made(r.Token)
		err := call()
		if made+f.gone > 0 && h.world.cloud.Made(r.Token) > made {
			f.stray, h.of("").stray = true, true
		}
		return err
	}
}
