package simulation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// ofOneAccount is the name of an invariant.
const ofOneAccount = "a call is about instances of the account of its credentials"

// accountOf is the account of a Machine or an instance with a name. A Machine that was restored has that of the one before.
func (h *habits) accountOf(name string) string {
	if isOfPool(name) {
		return "" // that of its provider
	}
	name = strings.TrimSuffix(name, strings.Replace(twinSuffix, "/", "-", 1))
	return fmt.Sprint("account-", int(name[len(name)-1])%h.accounts)
}

// requestOf is what a process asks the cloud for about a Machine with a name.
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
		values, chosen := cloud.Values{"account": []byte(account), "token": []byte("right")}, 0
		if h.rotates {
			h.read++
			values["number"] = fmt.Append(nil, h.read)
		}
		if h.has(CloudRotates, "") {
			chosen = h.world.choices.pick(4)
		}
		switch chosen {
		case 1:
			values["token"] = []byte("wrong")
		case 2:
			return nil, cloud.ErrNoCredentials
		case 3:
			return nil, cloud.Errorf(cloud.Unavailable, "simulated: the Secret could not be read")
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
	of := []string{r.Name}
	for _, i := range h.found(r) {
		of = append(of, i.Name)
	}
	for _, name := range of {
		if account := string(values["account"]); name != "" && h.accountOf(name) != account {
			h.world.fail(ofOneAccount, fmt.Errorf("%s of %s, which is not of %s", op, name, account))
		}
	}
	return nil
}

// cloudCalls are the calls of a process, with the rate and the cache of an operator in some histories whose cloud has habits.
func (p *process) cloudCalls() cloud.Calls {
	h, decorators := p.world.habits, []cloud.Decorator{p.world.habits.decorate, p.calls()}
	if h != nil && h.limited {
		decorators = append(decorators, cloud.RateLimit(cloud.RateLimitOptions{PerSecond: 1, Clock: p.world.clock}),
			cloud.Cache(cloud.CacheOptions{Clock: p.world.clock}))
	}
	return cloud.Of(p.world.cloud, decorators...)
}
