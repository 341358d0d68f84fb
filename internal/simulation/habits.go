package simulation

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// Faults of a cloud, beside what becomes of the requests to it.
const (
	// CloudCreatesTwice: a cloud makes two instances for one token.
	CloudCreatesTwice Fault = "cloud creates twice"
	// CloudForgets: it does not show an instance for a while. CloudLoses: an instance is gone for ever.
	CloudForgets Fault = "cloud forgets"
	CloudLoses   Fault = "cloud loses an instance"
	// CloudReportsHalf: it leaves the provider ID, the addresses or the state of an instance out for a while. CloudRenames: it writes
	// provider IDs in another form.
	CloudReportsHalf Fault = "cloud reports half"
	CloudRenames     Fault = "cloud renames"
	// CloudIsSlow: an instance is being created for minutes.
	CloudIsSlow Fault = "cloud is slow"
	// CloudKeeps: the deletion of an instance fails for a while. CloudLies: it says that an instance is gone that it only begins to delete, or
	// that runs on.
	CloudKeeps Fault = "cloud keeps an instance"
	CloudLies  Fault = "cloud lies about a deletion"
	// CloudRefuses: it refuses every creation, or every call, for a while, for one of several reasons.
	CloudRefuses Fault = "cloud refuses"
)

func cloudFaults() []Fault {
	return []Fault{CloudCreatesTwice, CloudForgets, CloudLoses, CloudReportsHalf, CloudRenames, CloudIsSlow, CloudKeeps, CloudLies,
		CloudRefuses}
}

// twinSuffix is what the token of a second instance has in the store of the cloud. Nothing but the World sees it.
const twinSuffix = "/twin"

// tokenOf is the token of an instance as its tag says it.
func tokenOf(i cloud.Instance) string { return strings.TrimSuffix(i.Token, twinSuffix) }

// sameID compares provider IDs whatever their form.
func sameID(a, b string) bool { return a != "" && strings.EqualFold(a, b) }

// habits are what a cloud does wrong, in the histories that have such.
type habits struct {
	world *World
	// hidden, half, slow, kept and lies end at a time, by the token in the store of the cloud.
	hidden, half, slow, kept, lies map[string]time.Time
	// refuses is the class of an error until a time; only of creations if creates is set.
	refuses cloud.Class
	creates bool
	until   time.Time
	// renamed: provider IDs have the other form.
	renamed bool
	// denied counts the looks at an instance that said that it did not exist. doubled are tokens that have had two instances.
	denied  map[string]int
	doubled map[string]bool
	// nodes are those of instances that were never a Machine's alone: the cloud controller manager collects them.
	nodes map[string]bool
}

// drawHabits decides whether the cloud of a history has habits; a history without has none of their faults.
func (w *World) drawHabits() *habits {
	if w.provided == nil && w.choices.pick(3) == 0 {
		times := func() map[string]time.Time { return map[string]time.Time{} }
		return &habits{
			world: w, hidden: times(), half: times(), slow: times(), kept: times(), lies: times(), denied: map[string]int{},
			doubled: map[string]bool{}, nodes: map[string]bool{},
		}
	}
	for _, f := range cloudFaults() {
		w.drawnTo[f] = false
	}
	return nil
}

// now reports whether a habit of an instance is not over.
func (h *habits) now(times map[string]time.Time, token string) bool {
	return !h.world.calm && h.world.Now().Before(times[token])
}

// lied reports whether the cloud has said that an instance is gone; a habits that is nil has said nothing.
func (h *habits) lied(token string) bool { return h != nil && !h.lies[token].IsZero() }

// doubles reports whether the cloud has made two instances for a Machine that has recorded neither; of a habits that is nil too.
func (h *habits) doubles(m *unstructured.Unstructured) bool {
	id := providerIDIn(m)
	return h != nil && id == "" && h.doubled[string(m.GetUID())]
}

// saidGone reports whether the cloud has said that an instance is gone so often that a Machine believes it; of a habits that is nil too.
func (h *habits) saidGone(token string) bool {
	return h != nil && (h.denied[token] >= surelyGone || h.lied(token))
}

// surelyGone is how many looks it takes until an instance that ran is believed to be gone. See instance.Decide.
const surelyGone = 3

// decorate gives the calls of a cloud its habits; of a habits that is nil too.
func (h *habits) decorate(c cloud.Calls) cloud.Calls {
	if h == nil {
		return c
	}
	actual := c
	c.Create = func(ctx context.Context, r cloud.Request) (cloud.Instance, error) { return h.create(ctx, actual, r) }
	c.Get = func(ctx context.Context, r cloud.Request) (cloud.Instance, error) { return h.get(ctx, actual, r) }
	c.Delete = func(ctx context.Context, r cloud.Request) (bool, error) { return h.remove(ctx, actual, r) }
	c.List = func(ctx context.Context, r cloud.Request) ([]cloud.Instance, error) { return h.list(ctx, actual, r) }
	return c
}

// refusal is the error of a call while the cloud refuses it; nil otherwise.
func (h *habits) refusal(op cloud.Operation) error {
	if h.world.calm || !h.world.Now().Before(h.until) || h.creates && op != cloud.OpCreate {
		return nil
	}
	return &cloud.Error{Class: h.refuses, Message: "simulated: the cloud refuses", RetryAfter: h.until.Sub(h.world.Now()) / 2}
}

// found are the instances that a request is about, as the store of the cloud has them: those with its provider ID or with its token.
func (h *habits) found(r cloud.Request) []cloud.Instance {
	return slices.DeleteFunc(h.world.instances(), func(i cloud.Instance) bool {
		if r.ProviderID != "" {
			return !sameID(i.ProviderID, r.ProviderID)
		}
		return tokenOf(i) != r.Token
	})
}

// one is one of the instances that a request is about, in the form of the store.
func (h *habits) one(r cloud.Request) cloud.Request {
	all := h.found(r)
	if len(all) == 0 {
		r.ProviderID = strings.ToLower(r.ProviderID) // a new one is not listed yet
		return r
	}
	i := all[0]
	if len(all) > 1 {
		i = all[h.world.choices.pick(len(all))]
	}
	r.Token, r.ProviderID = i.Token, i.ProviderID
	return r
}

func (h *habits) create(ctx context.Context, actual cloud.Calls, r cloud.Request) (cloud.Instance, error) {
	if err := h.refusal(cloud.OpCreate); err != nil {
		return cloud.Instance{}, err
	}
	if len(h.found(r)) == 0 && h.world.drawn([]Fault{CloudCreatesTwice}, 3) != "" {
		h.world.seen[faultPrefix+string(CloudCreatesTwice)]++
		h.doubled[r.Token] = true
		twin := r
		twin.Token, twin.Name = r.Token+twinSuffix, r.Name+"-twin"
		if _, err := actual.Create(ctx, twin); err != nil {
			return cloud.Instance{}, err
		}
		if _, err := actual.Create(ctx, r); err != nil {
			return cloud.Instance{}, err
		}
		h.nodes[twin.Name], h.nodes[r.Name] = true, true
	}
	r.Token = h.one(r).Token
	i, err := actual.Create(ctx, r)
	return h.shown(i), err
}

func (h *habits) get(ctx context.Context, actual cloud.Calls, r cloud.Request) (cloud.Instance, error) {
	if err := h.refusal(cloud.OpGet); err != nil {
		return cloud.Instance{}, err
	}
	r = h.one(r)
	if h.now(h.hidden, r.Token) || h.lied(r.Token) {
		h.denied[r.Token]++
		for _, i := range h.found(r) { // a Machine that is deleted meanwhile cannot know that its Node is one
			h.nodes[i.Name] = h.nodes[i.Name] || providerIDIn(h.world.object("Machine", namespace, i.Name)) == ""
		}
		return cloud.Instance{}, cloud.Errorf(cloud.NotFound, "simulated: there is no instance %s", r.Token)
	}
	i, err := actual.Get(ctx, r)
	if cloud.ClassOf(err) == cloud.NotFound {
		h.denied[r.Token]++ // a new one is seen late
	}
	return h.shown(i), err
}

func (h *habits) list(ctx context.Context, actual cloud.Calls, r cloud.Request) ([]cloud.Instance, error) {
	if err := h.refusal(cloud.OpList); err != nil {
		return nil, err
	}
	all, err := actual.List(ctx, r)
	all = slices.DeleteFunc(all, func(i cloud.Instance) bool { return h.now(h.hidden, i.Token) })
	for n := range all {
		all[n] = h.shown(all[n])
	}
	return all, err
}

func (h *habits) remove(ctx context.Context, actual cloud.Calls, r cloud.Request) (gone bool, err error) {
	if err := h.refusal(cloud.OpDelete); err != nil {
		return false, err
	}
	one := h.one(r)
	if h.now(h.kept, one.Token) {
		return false, cloud.Errorf(cloud.Unavailable, "simulated: the instance is in use")
	}
	if h.lied(one.Token) && !h.world.calm {
		return true, nil
	}
	if len(h.found(r)) > 0 && h.world.drawn([]Fault{CloudLies}, 2) != "" {
		return true, h.lie(ctx, actual, one)
	}
	gone, err = actual.Delete(ctx, one)
	return gone && len(h.found(r)) == 0, err
}

// lie lets an instance run on, or go later, of which the cloud says that it is gone.
func (h *habits) lie(ctx context.Context, actual cloud.Calls, r cloud.Request) (err error) {
	h.world.seen[faultPrefix+string(CloudLies)]++
	for _, i := range h.found(r) {
		h.nodes[i.Name] = true
		h.lies[i.Token] = h.world.Now()
	}
	if h.world.choices.pick(2) == 0 {
		_, err = actual.Delete(ctx, r)
	}
	return err
}

// shown is an instance as the cloud shows it.
func (h *habits) shown(i cloud.Instance) cloud.Instance {
	token := i.Token
	i.Token = tokenOf(i)
	if h.renamed {
		i.ProviderID = strings.ToUpper(i.ProviderID)
	}
	if h.now(h.slow, token) && i.State == cloud.Running {
		i.State = cloud.Creating
	}
	if !h.now(h.half, token) {
		return i
	}
	switch h.world.choices.pick(3) {
	case 0:
		i.ProviderID = ""
	case 1:
		i.Addresses = nil
	default:
		i.ProviderID, i.Addresses, i.State = "", nil, ""
	}
	return i
}
