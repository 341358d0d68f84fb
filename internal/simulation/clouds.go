package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// ofClouds are what a cloud does by itself. Habits begin, and end by themselves.
func ofClouds() []disturbance {
	habit := func(fault Fault, what string) disturbance { // what is before the name of the instance in the history
		return disturbance{fault, func(w *World, _ context.Context) { w.beginHabit(fault, what) }}
	}
	return []disturbance{
		{CloudLoses, (*World).cloudLoses}, {"cloud renames", (*World).cloudRenames}, {CloudCreatesTwice, nil}, {CloudLies, nil},
		habit(CloudForgets, "does not show"), habit(CloudKeeps, "does not delete"), habit(CloudRefuses, "refuses"),
		habit(CloudRotates, "does not accept all credentials of"), habit(CloudIsSlow, "is still creating"),
		habit(CloudFails, "has failed to run"), habit(CloudReportsHalf, "shows half of"), habit(CloudMoves, "has another ID for"),
	}
}

// beginHabit begins a habit, for a time: that of one instance, or of all.
func (w *World) beginHabit(fault Fault, what string) {
	h, of := w.habits, cloud.Instance{Name: "all calls"}
	switch fault {
	case CloudRotates:
	case CloudRefuses:
		h.class = oneOf(w, cloud.Exhausted, cloud.Invalid, cloud.Terminal, cloud.RateLimited, cloud.Unauthenticated, cloud.Unavailable,
			cloud.NotFound)
		h.refused = oneOf(w, cloud.OpCreate, cloud.OpCreate, "", cloud.OpGet, cloud.OpDelete, cloud.OpList)
		of.Name = fmt.Sprintf("%s calls: %s", cmp.Or(h.refused, "all"), h.class)
	default:
		leaves := func(i cloud.Instance) bool {
			return w.holderOf(i) != nil && w.holderOf(i).GetDeletionTimestamp() != nil
		}
		if of = oneOf(w, rather(w, w.instances(), leaves)...); of.Token == "" {
			return
		}
		h.nodes[of.Name] = h.nodes[of.Name] || fault == CloudMoves // its Machine takes the Node for another one's
	}
	lasts := oneOf(w, time.Second, 3*time.Minute, 10*time.Minute, 20*time.Minute)
	h.of(of.Token).until[fault] = w.Now().Add(lasts)
	w.note("cloud", fmt.Sprintf("%s %s for %s", what, of.Name, lasts), "")
}

// cloudRenames: the cloud writes provider IDs in another form, or no longer.
func (w *World) cloudRenames(context.Context) {
	w.habits.renamed = !w.habits.renamed
	w.note("cloud", fmt.Sprintf("writes provider IDs in upper case: %t", w.habits.renamed), "")
}

// cloudLoses: the hardware of an instance is gone.
func (w *World) cloudLoses(context.Context) {
	if i := oneOf(w, w.instances()...); i.Token != "" {
		w.habits.nodes[i.Name] = true
		w.cloud.Lose(i.Token)
		w.note("cloud", "loses "+i.Name, "")
	}
}

// twinSuffix is what the name of a second instance has, and its token in the store of the cloud: nothing but the World reads that.
const twinSuffix = "-twin"

// tokenOf is the token of an instance as its tag has it.
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

// isLeft reports whether the deletion of a Machine cannot find an instance: the cloud has reported it as gone, has made it again with a
// request that was late, or has made two for a Machine that has recorded neither.
func (h *habits) isLeft(m *unstructured.Unstructured, i cloud.Instance) bool {
	f := h.of(i.Token)
	return f.lied || f.stray || h != nil && providerIDIn(m) == "" && h.Made(string(m.GetUID())+twinSuffix) > 0
}

// reportedGone reports whether the cloud has reported an instance as gone so often that a Machine accepts it.
func (h *habits) reportedGone(token string) bool {
	return h.of(token).denied >= surelyGone || h.of(token).lied
}

// surelyGone is how many looks it takes until an instance that ran is believed to be gone. See instance.Decide.
const surelyGone = 3

// hidesNode reports whether nothing leads from a Machine to the Node of its instance: it is believed to be gone, or has had another ID.
func (h *habits) hidesNode(token string) bool {
	return h.reportedGone(token) || !h.of(token).until[CloudMoves].IsZero()
}

// accountOf is the account of a Machine or an instance with a name. A Machine that was restored has that of the one before.
func (h *habits) accountOf(name string) string {
	if isOfPool(name) {
		return "" // that of its provider
	}
	name = strings.TrimSuffix(name, twinSuffix)
	return fmt.Sprint("account-", int(name[len(name)-1])%h.accounts)
}

// requestOf is the request of a process to the cloud about a Machine with a name.
func (h *habits) requestOf(name string) cloud.Request {
	r := cloud.Request{Spec: []byte(`{"size":"small"}`)}
	if h != nil {
		r.Account = h.accountOf(name)
		r.Credentials = h.credentials(r.Account)
	}
	return r
}

// credentials are those of an account, in a Secret that another program may be writing.
func (h *habits) credentials(account string) cloud.Credentials {
	return func(context.Context) (cloud.Values, error) {
		if h.rotates {
			h.read++
		}
		values := cloud.Values{"account": []byte(account), "token": []byte("right"), "number": fmt.Append(nil, h.read)}
		if h.has(CloudRotates, "") {
			switch h.world.choices.pick(4) {
			case 1:
				values["token"] = []byte("wrong")
			case 2:
				return nil, cloud.ErrNoCredentials
			case 3:
				return nil, cloud.Errorf(cloud.Unavailable, "simulated: the Secret could not be read")
			}
		}
		return values, nil
	}
}

// signedIn returns why the cloud does not accept the credentials of a call; nil when it does.
func (h *habits) signedIn(ctx context.Context, op cloud.Operation, r *cloud.Request) error {
	values, err := r.Credentials.Read(ctx)
	switch {
	case err != nil && !errors.Is(err, cloud.ErrNoCredentials):
		return err
	case string(values["token"]) != "right":
		return cloud.Errorf(cloud.Unauthenticated, "simulated: the credentials are missing or wrong")
	}
	for _, i := range append([]cloud.Instance{{Name: r.Name}}, h.found(r)...) {
		if account := string(values["account"]); i.Name != "" && h.accountOf(i.Name) != account {
			h.world.fail("a call is about instances of the account of its credentials",
				fmt.Errorf("%s of %s, which is not of %s", op, i.Name, account))
		}
	}
	return nil
}

// cloudCalls are the calls of a process, with the rate and the cache of an operator in some histories whose cloud has habits.
func (p *process) cloudCalls() cloud.Calls {
	h, clock := p.world.habits, p.world.clock
	switch {
	case h == nil:
		return cloud.Of(p.world.cloud, p.calls())
	case !h.limited:
		return cloud.Of(h, cloud.Around(h.around), p.calls())
	}
	return cloud.Of(h, cloud.Around(h.around), p.calls(), cloud.RateLimit(cloud.RateLimitOptions{PerSecond: 1, Clock: clock}),
		cloud.Cache(cloud.CacheOptions{Clock: clock}))
}
