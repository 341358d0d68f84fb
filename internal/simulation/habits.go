package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// Faults of a cloud, beside what becomes of the requests to it.
const (
	// CloudCreatesTwice: a cloud makes two instances for one token.
	CloudCreatesTwice Fault = "cloud creates twice"
	// CloudForgets: it does not show an instance for a while. CloudLoses: an instance is gone for ever.
	CloudForgets Fault = "cloud forgets"
	CloudLoses   Fault = "cloud loses an instance"
	// CloudReportsHalf: it leaves the provider ID, the addresses or the state of an instance out for a while. CloudMoves: an
	// instance has another provider ID for a while, and is found by both.
	CloudReportsHalf Fault = "cloud reports half"
	CloudMoves       Fault = "cloud changes an ID"
	// CloudIsSlow: an instance is being created for minutes. CloudFails: it has failed for good, and runs again after minutes.
	CloudIsSlow Fault = "cloud is slow"
	CloudFails  Fault = "cloud reports a failure"
	// CloudKeeps: the deletion of an instance fails for a while. CloudLies: it reports an instance as gone that it only begins to delete, or
	// that runs on.
	CloudKeeps Fault = "cloud keeps an instance"
	CloudLies  Fault = "cloud lies about a deletion"
	// CloudRefuses: it refuses one call, or for a while every call or those of one kind, with an error of any class; a list ends early.
	CloudRefuses Fault = "cloud refuses"
	// CloudRotates: credentials are others at each read, and for a while missing, unreadable or wrong.
	CloudRotates Fault = "cloud rotates credentials"
)

// habits are what a cloud does wrong, in the histories that have such. It is the cloud itself, with another answer to some calls.
type habits struct {
	*fake.Driver

	world *World
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
	// lied: the cloud has reported it as gone. gone: a deletion has reported so, and it is true. stray: a late request has made it again.
	lied, gone, stray bool
	denied            int       // looks that did not find it
	looked            time.Time // when a process looked last
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
			Driver: w.cloud, world: w, fates: map[string]*fate{}, nodes: map[string]bool{}, accounts: 1 + w.choices.pick(2),
			rotates: w.has(CloudRotates) && w.choices.pick(2) == 1, limited: w.choices.pick(2) == 1,
		}
	}
	w.hasNone(faultsOf(ofClouds())...)
	return nil
}

// has reports whether a habit concerns an instance now. One that concerns all ends with the faults, and one of an instance in its time: no
// event shows its end.
func (h *habits) has(f Fault, token string) bool {
	return !(h.world.calm && token == "") && h.world.Now().Before(h.of(token).until[f])
}

// last is how long habits of single instances last from now: a look that finds one may be minutes after everything was reached.
func (h *habits) last() (lasts time.Duration) {
	if h == nil {
		return 0
	}
	for token, f := range h.fates {
		for _, end := range f.until {
			if left := end.Sub(h.world.Now()); token != "" {
				lasts = max(lasts, left)
			}
		}
	}
	return lasts
}

// around refuses a call, or passes it on. What was listed before a list was refused comes with its error. A look that finds no instance is
// remembered: a Machine that is deleted meanwhile has no record of its Node.
func (h *habits) around(ctx context.Context, op cloud.Operation, r *cloud.Request, call func(context.Context) error) error {
	err := h.signedIn(ctx, op, r)
	if err = cmp.Or(err, h.refuses(op, r)); err == nil || op == cloud.OpList {
		err = cmp.Or(err, call(ctx))
	}
	if op == cloud.OpGet && cloud.ClassOf(err) == cloud.NotFound {
		h.of(r.Token).denied++
		for _, i := range h.found(r) {
			if i.Token != r.Token {
				h.of(i.Token).denied++
			}
			h.nodes[i.Name] = h.nodes[i.Name] || providerIDIn(h.world.holderOf(i)) == ""
		}
	}
	return err
}

// refuses returns why the cloud does not carry a call out; nil when it does. A Driver never returns NotFound for a deletion: that is gone.
func (h *habits) refuses(op cloud.Operation, r *cloud.Request) error {
	for _, i := range h.found(r) {
		switch {
		case op == cloud.OpGet && h.of(i.Token).lied:
			return cloud.Errorf(cloud.NotFound, "simulated: there is no instance %s", r.Token)
		case op == cloud.OpGet && h.has(CloudForgets, i.Token):
			return cloud.Errorf(cloud.NotFound, "simulated: no %s of this instance", op)
		case op == cloud.OpDelete && h.has(CloudKeeps, i.Token):
			return cloud.Errorf(cloud.Unavailable, "simulated: no %s of this instance", op)
		}
	}
	if !h.has(CloudRefuses, "") || h.refused != "" && h.refused != op || h.class == cloud.NotFound && op == cloud.OpDelete {
		return nil
	}
	h.world.seen[fmt.Sprintf("refusal %s %s", op, h.class)]++
	left := h.of("").until[CloudRefuses].Sub(h.world.Now())
	return &cloud.Error{Class: h.class, Err: errors.New("simulated: the cloud refuses"), RetryAfter: left / 2}
}

// found are the instances that a request is about, as the store of the cloud has them: those with its provider ID or with its token.
func (h *habits) found(r *cloud.Request) []cloud.Instance {
	return slices.DeleteFunc(h.world.instances(), func(i cloud.Instance) bool {
		return !sameID(i.ProviderID, r.ProviderID) && (r.ProviderID != "" || tokenOf(i) != r.Token)
	})
}

// one is about one of the instances that a request is about, in the form of the store. A new one is not listed yet.
func (h *habits) one(r cloud.Request) cloud.Request {
	if i := oneOf(h.world, h.found(&r)...); i.Token != "" {
		r.Token, r.ProviderID = i.Token, i.ProviderID
	}
	r.ProviderID = storedID(r.ProviderID)
	return r
}

// Create implements cloud.Driver. A request that arrives late may make an instance again that is gone: nothing but a Collector finds it.
func (h *habits) Create(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	if len(h.found(&r)) == 0 && h.world.strikes(CloudCreatesTwice, 3) {
		twin := r
		twin.Token, twin.Name = r.Token+twinSuffix, r.Name+twinSuffix
		_, _ = h.Driver.Create(ctx, twin)
		h.nodes[twin.Name], h.nodes[r.Name] = true, true
	}
	f, token, made := h.of(r.Token), r.Token, h.Made(r.Token)
	r.Token = h.one(r).Token
	i, err := h.Driver.Create(ctx, r)
	if h.world.acting == nil && (made > 0 || f.gone) && h.Made(token) > made {
		f.stray, h.of("").stray = true, true
	}
	return h.shown(i), err
}

// Get implements cloud.Driver.
func (h *habits) Get(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	i, err := h.Driver.Get(ctx, h.one(r))
	return h.shown(i), err
}

// List implements cloud.Lister.
func (h *habits) List(ctx context.Context, r cloud.Request) ([]cloud.Instance, error) {
	all, err := h.Driver.List(ctx, r)
	all = slices.DeleteFunc(all, func(i cloud.Instance) bool { return h.has(CloudForgets, i.Token) || h.accountOf(i.Name) != r.Account })
	for n := range all {
		all[n] = h.shown(all[n])
	}
	return all, err
}

// Delete implements cloud.Driver: it deletes an instance, or leaves it, or deletes it later, and reports it as gone.
func (h *habits) Delete(ctx context.Context, r cloud.Request) (gone bool, err error) {
	found, one := h.found(&r), h.one(r)
	if !h.world.calm && slices.ContainsFunc(found, func(i cloud.Instance) bool { return h.of(i.Token).lied }) {
		return true, nil
	}
	lies := len(found) > 0 && h.world.strikes(CloudLies, 2)
	if !lies || h.world.choices.pick(2) == 0 {
		gone, err = h.Driver.Delete(ctx, one)
	}
	if lies {
		for _, i := range found {
			h.nodes[i.Name], h.of(i.Token).lied = true, true
		}
		return true, err
	}
	gone = gone && len(h.found(&r)) == 0
	h.of(r.Token).gone = h.of(r.Token).gone || gone
	return gone, err
}

// shown is an instance as the cloud shows it.
func (h *habits) shown(i cloud.Instance) cloud.Instance {
	has := func(f Fault) bool { return h.has(f, i.Token) }
	switch runs := i.State == cloud.Running; {
	case runs && has(CloudIsSlow):
		i.State = cloud.Creating
	case runs && has(CloudFails):
		i.State = cloud.Failed
	}
	if has(CloudReportsHalf) {
		switch h.world.choices.pick(3) {
		case 0:
			i.ProviderID = ""
		case 1:
			i.Addresses = nil
		default:
			i.ProviderID, i.Addresses, i.State = "", nil, ""
		}
	}
	if has(CloudMoves) {
		i.ProviderID = strings.Replace(i.ProviderID, storedScheme, movedScheme, 1)
	}
	if h.renamed {
		i.ProviderID = strings.ToUpper(i.ProviderID)
	}
	i.Token = tokenOf(i)
	return i
}
