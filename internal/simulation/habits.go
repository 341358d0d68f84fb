package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// provider IDs in another form. CloudMoves: an instance has another provider ID for a while, and is found by both.
	CloudReportsHalf Fault = "cloud reports half"
	CloudRenames     Fault = "cloud renames"
	CloudMoves       Fault = "cloud changes an ID"
	// CloudIsSlow: an instance is being created for minutes. CloudFails: it has failed for good, and runs again after minutes.
	CloudIsSlow Fault = "cloud is slow"
	CloudFails  Fault = "cloud reports a failure"
	// CloudKeeps: the deletion of an instance fails for a while. CloudLies: it says that an instance is gone that it only begins to delete, or
	// that runs on.
	CloudKeeps Fault = "cloud keeps an instance"
	CloudLies  Fault = "cloud lies about a deletion"
	// CloudRefuses: it refuses one call, or for a while every call or those of one kind, with an error of any class; a list ends early.
	CloudRefuses Fault = "cloud refuses"
	// CloudRotates: credentials are others at each read, and for a while missing, unreadable or wrong.
	CloudRotates Fault = "cloud rotates credentials"
)

// habit is what a cloud does wrong for a time: to one instance, or to all.
type habit struct {
	fault Fault
	what  string // in the history, before the name of the instance
	toAll bool
	// refuses returns the error of a call that is not carried out, and shows changes what is returned of an instance. Each may be nil.
	refuses func(*habits, cloud.Operation) error
	shows   func(*habits, *cloud.Instance)
}

// allHabits are those that begin and end. A creation of two instances and a lie are no such, and neither is an instance that is lost.
func allHabits() []habit {
	return []habit{
		{fault: CloudForgets, what: "does not show", refuses: refusing(cloud.OpGet, cloud.NotFound)},
		{fault: CloudKeeps, what: "does not delete", refuses: refusing(cloud.OpDelete, cloud.Unavailable)},
		{fault: CloudRefuses, what: "refuses", toAll: true, refuses: (*habits).refusal},
		{fault: CloudRotates, what: "does not accept all credentials of", toAll: true},
		{fault: CloudIsSlow, what: "is still creating", shows: showing(cloud.Creating)},
		{fault: CloudFails, what: "has failed to run", shows: showing(cloud.Failed)},
		{fault: CloudReportsHalf, what: "shows half of", shows: (*habits).half},
		{fault: CloudMoves, what: "has another ID for", shows: func(_ *habits, i *cloud.Instance) {
			i.ProviderID = strings.Replace(i.ProviderID, storedScheme, movedScheme, 1)
		}},
	}
}

// refusing returns what refuses the calls of one operation.
func refusing(op cloud.Operation, class cloud.Class) func(*habits, cloud.Operation) error {
	return func(_ *habits, asked cloud.Operation) error {
		if asked != op {
			return nil
		}
		return cloud.Errorf(class, "simulated: no %s of this instance", op)
	}
}

// showing returns what shows an instance that runs in another state.
func showing(state cloud.State) func(*habits, *cloud.Instance) {
	return func(_ *habits, i *cloud.Instance) {
		if i.State == cloud.Running {
			i.State = state
		}
	}
}

// half leaves something out.
func (h *habits) half(i *cloud.Instance) {
	switch h.world.choices.pick(3) {
	case 0:
		i.ProviderID = ""
	case 1:
		i.Addresses = nil
	default:
		i.ProviderID, i.Addresses, i.State = "", nil, ""
	}
}

// classes are those of errors.
func classes() []cloud.Class {
	return []cloud.Class{cloud.Exhausted, cloud.Invalid, cloud.Terminal, cloud.RateLimited, cloud.Unauthenticated, cloud.Unavailable,
		cloud.NotFound}
}

// refusal is the error of a call of the kind that the cloud refuses. A Driver never returns NotFound for a deletion: that is gone.
func (h *habits) refusal(op cloud.Operation) error {
	if h.refused != "" && h.refused != op || h.class == cloud.NotFound && op == cloud.OpDelete {
		return nil
	}
	h.world.seen[fmt.Sprintf("refusal %s %s", op, h.class)]++
	left := h.of("").until[CloudRefuses].Sub(h.world.Now())
	return &cloud.Error{Class: h.class, Message: "simulated: the cloud refuses", RetryAfter: left / 2}
}

// habits are what a cloud does wrong, in the histories that have such.
type habits struct {
	world *World
	table []habit
	fates map[string]*fate // by the token in the store of the cloud; the empty one is that of all
	// class is that of the error of refused calls, all or those of one operation.
	class   cloud.Class
	refused cloud.Operation
	// renamed: provider IDs have the other form. rotates: credentials are others at each read. limited: processes keep to a rate, and cache.
	renamed, rotates, limited bool
	// accounts is how many there are, and read how often their credentials were.
	accounts, read int
	// nodes are those of instances that were never a Machine's alone: the cloud controller manager collects them.
	nodes map[string]bool
}

// fate is what has become of an instance.
type fate struct {
	until map[Fault]time.Time // the end of habits
	// lied: the cloud has said that it is gone. stray: a late request has made it again. doubled: there have been two for its token.
	lied, stray, doubled bool
	// denied counts the looks that said that it did not exist, and gone the deletions that said so. looked is when a process looked last.
	denied, gone int
	looked       time.Time
}

// of is the fate of an instance; an empty one of a habits that is nil.
func (h *habits) of(token string) *fate {
	if h == nil {
		return &fate{}
	}
	if h.fates[token] == nil {
		h.fates[token] = &fate{until: map[Fault]time.Time{}}
	}
	return h.fates[token]
}

// drawHabits decides whether the cloud of a history has habits; a history without has none of their faults.
func (w *World) drawHabits() *habits {
	if w.provided == nil && w.choices.pick(3) == 0 {
		w.drawnTo[CloudMoves] = w.drawnTo[CloudMoves] && w.health == nil // a check cannot find the Node, and the World can
		return &habits{
			world: w, table: allHabits(), fates: map[string]*fate{}, nodes: map[string]bool{}, accounts: 1 + w.choices.pick(2),
			rotates: w.has(CloudRotates) && w.choices.pick(2) == 1, limited: w.choices.pick(2) == 1,
		}
	}
	for _, f := range faultsOf(ofClouds()) {
		w.drawnTo[f] = false
	}
	return nil
}

// has reports whether a habit concerns an instance now. One that concerns all ends with the faults, and one of an instance in its time: no
// event shows its end.
func (h *habits) has(f Fault, token string) bool {
	return !(h.world.calm && token == "") && h.world.Now().Before(h.of(token).until[f])
}

// decorate gives the calls of a cloud its habits; of a habits that is nil too.
func (h *habits) decorate(c cloud.Calls) cloud.Calls {
	if h == nil {
		return c
	}
	actual := c
	c.Create = func(ctx context.Context, r cloud.Request) (cloud.Instance, error) { return h.create(ctx, actual, r) }
	c.Get = func(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
		i, err := actual.Get(ctx, h.one(r))
		return h.shown(i), err
	}
	c.Delete = func(ctx context.Context, r cloud.Request) (bool, error) { return h.remove(ctx, actual, r) }
	c.List = func(ctx context.Context, r cloud.Request) ([]cloud.Instance, error) { return h.list(ctx, actual, r) }
	return cloud.Around(h.around)(c)
}

// around refuses a call, or lets it pass. What was listed before a list was refused comes with its error.
func (h *habits) around(ctx context.Context, op cloud.Operation, r *cloud.Request, call func(context.Context) error) error {
	err := h.signedIn(ctx, op, r)
	if err = cmp.Or(err, h.refuses(op, r)); err == nil || op == cloud.OpList {
		err = cmp.Or(err, call(ctx))
	}
	if op == cloud.OpGet && cloud.ClassOf(err) == cloud.NotFound {
		h.deny(r)
	}
	return err
}

// refuses returns why the cloud does not carry a call out; nil when it does.
func (h *habits) refuses(op cloud.Operation, r *cloud.Request) error {
	tokens := []string{""}
	for _, i := range h.found(r) {
		tokens = append(tokens, i.Token)
		if h.of(i.Token).lied && op == cloud.OpGet {
			return cloud.Errorf(cloud.NotFound, "simulated: there is no instance %s", r.Token)
		}
	}
	for _, one := range h.table {
		for _, token := range tokens {
			if one.refuses != nil && h.has(one.fault, token) {
				if err := one.refuses(h, op); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// found are the instances that a request is about, as the store of the cloud has them: those with its provider ID or with its token.
func (h *habits) found(r *cloud.Request) []cloud.Instance {
	return slices.DeleteFunc(h.world.instances(), func(i cloud.Instance) bool {
		if r.ProviderID != "" {
			return !sameID(i.ProviderID, r.ProviderID)
		}
		return tokenOf(i) != r.Token
	})
}

// one is one of the instances that a request is about, in the form of the store.
func (h *habits) one(r cloud.Request) cloud.Request {
	all := h.found(&r)
	if len(all) == 0 {
		r.ProviderID = storedID(r.ProviderID) // a new one is not listed yet
		return r
	}
	i := all[h.world.choices.pick(len(all))]
	r.Token, r.ProviderID = i.Token, i.ProviderID
	return r
}

func (h *habits) create(ctx context.Context, actual cloud.Calls, r cloud.Request) (cloud.Instance, error) {
	if len(h.found(&r)) == 0 && h.world.drawn([]Fault{CloudCreatesTwice}, 3) != "" {
		h.world.seen[faultPrefix+string(CloudCreatesTwice)]++
		h.of(r.Token).doubled = true
		for _, suffix := range []string{twinSuffix, ""} {
			twin := r
			twin.Token, twin.Name = r.Token+suffix, r.Name+strings.Replace(suffix, "/", "-", 1)
			_, _ = actual.Create(ctx, twin)
			h.nodes[twin.Name] = true
		}
	}
	r.Token = h.one(r).Token
	i, err := actual.Create(ctx, r)
	return h.shown(i), err
}

func (h *habits) list(ctx context.Context, actual cloud.Calls, r cloud.Request) ([]cloud.Instance, error) {
	all, err := actual.List(ctx, r)
	all = slices.DeleteFunc(all, func(i cloud.Instance) bool { return h.has(CloudForgets, i.Token) || h.accountOf(i.Name) != r.Account })
	for n := range all {
		all[n] = h.shown(all[n])
	}
	return all, err
}

// remove deletes an instance, or lets it run on, or go later, and says that it is gone.
func (h *habits) remove(ctx context.Context, actual cloud.Calls, r cloud.Request) (gone bool, err error) {
	found, one := h.found(&r), h.one(r)
	if !h.world.calm && slices.ContainsFunc(found, func(i cloud.Instance) bool { return h.of(i.Token).lied }) {
		return true, nil
	}
	lies := len(found) > 0 && h.world.drawn([]Fault{CloudLies}, 2) != ""
	if !lies || h.world.choices.pick(2) == 0 {
		gone, err = actual.Delete(ctx, one)
	}
	if lies {
		h.world.seen[faultPrefix+string(CloudLies)]++
		for _, i := range found {
			h.nodes[i.Name], h.of(i.Token).lied = true, true
		}
		return true, err
	}
	if gone = gone && len(h.found(&r)) == 0; gone {
		h.of(r.Token).gone++
	}
	return gone, err
}

// shown is an instance as the cloud shows it.
func (h *habits) shown(i cloud.Instance) cloud.Instance {
	token := i.Token
	i.Token = tokenOf(i)
	for _, one := range h.table {
		if one.shows != nil && h.has(one.fault, token) {
			one.shows(h, &i)
		}
	}
	if h.renamed {
		i.ProviderID = strings.ToUpper(i.ProviderID)
	}
	return i
}

// deny remembers a look that said that there is no instance. A Machine that is deleted meanwhile cannot know that its Node is one.
func (h *habits) deny(r *cloud.Request) {
	h.of(r.Token).denied++
	for _, i := range h.found(r) {
		if i.Token != r.Token {
			h.of(i.Token).denied++
		}
		h.nodes[i.Name] = h.nodes[i.Name] || providerIDIn(h.world.holderOf(i)) == ""
	}
}
