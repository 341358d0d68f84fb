package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/machinist-dev/machinist/noderef"
)

func identifies(ctx context.Context, e Conformance) error {
	r := e.request()
	return e.with(ctx, r, func(instance Instance) error {
		switch {
		case instance.ProviderID == "" && instance.Resume == nil:
			return errors.New("create returned neither a provider ID nor what to resume with")
		case instance.ProviderID != "" && !noderef.ValidProviderID(instance.ProviderID):
			return fmt.Errorf("provider ID %q names no instance", instance.ProviderID)
		case instance.Token != r.Token:
			return fmt.Errorf("create returned the token %q, not %q", instance.Token, r.Token)
		}
		return nil
	})
}

func runs(ctx context.Context, e Conformance) error {
	r := e.request()
	return e.with(ctx, r, func(Instance) error {
		return e.eventually(ctx, "the instance to run", func(ctx context.Context) (bool, error) {
			instance, err := e.Driver.Get(ctx, r)
			if err == nil && (instance.State != Running || instance.ProviderID == "") {
				err = fmt.Errorf("it is %s %q, with the provider ID %q", instance.State, instance.Message, instance.ProviderID)
			}
			return err == nil, err
		})
	})
}

func repeats(ctx context.Context, e Conformance) error {
	r := e.request()
	return e.with(ctx, r, func(first Instance) error {
		if _, err := e.found(ctx, r, "the new instance"); err != nil {
			return err
		}
		second, again, err := e.create(ctx, r) // nothing is recorded: the response was lost
		if err != nil {
			return err
		}
		if first.ProviderID != second.ProviderID {
			return errors.Join(fmt.Errorf("there are two instances, %s and %s", first.ProviderID, second.ProviderID), e.gone(ctx, again))
		}
		return nil
	})
}

func races(ctx context.Context, e Conformance) error {
	r := e.request()
	const callers = 4
	created := make(chan Request, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if _, made, err := e.create(ctx, r); err == nil { // an error that another creation is in progress is correct too
				created <- made
			}
		})
	}
	all.Wait()
	close(created)
	byID := map[string]Request{}
	for made := range created {
		byID[made.ProviderID] = made
	}
	var err error
	if len(byID) != 1 {
		err = fmt.Errorf("the concurrent creates returned %d instances", len(byID))
	}
	if len(byID) == 0 {
		byID[""] = r // a response may be lost
	}
	for _, made := range byID {
		err = errors.Join(err, e.gone(ctx, made))
	}
	return err
}

func finds(ctx context.Context, e Conformance) error {
	r := e.request()
	return e.with(ctx, r, func(Instance) error {
		byToken, err := e.found(ctx, r, "get by the token")
		if err != nil {
			return err
		}
		byID := r
		byID.Token, byID.ProviderID = e.Token(), byToken.ProviderID // as after a restore from a backup
		other, err := e.found(ctx, byID, "get by the provider ID")
		if err != nil {
			return err
		}
		if other.ProviderID != byToken.ProviderID || other.Token != r.Token {
			return fmt.Errorf("get by the provider ID %s found %s of the token %s", byToken.ProviderID, other.ProviderID, other.Token)
		}
		return nil
	})
}

func misses(ctx context.Context, e Conformance) error {
	instance, err := e.Driver.Get(ctx, e.request())
	if class := ClassOf(err); class != NotFound {
		return errors.Join(fmt.Errorf("get of what was never made returned %q, and the class %q", instance.ProviderID, class), err)
	}
	return nil
}

func deletes(ctx context.Context, e Conformance) error {
	r := e.request()
	var made Instance
	err := e.with(ctx, r, func(instance Instance) error {
		made = instance
		_, err := e.found(ctx, r, "the new instance")
		return err
	})
	if err != nil {
		return err
	}
	r.ProviderID = made.ProviderID
	if still, err := e.Driver.Get(ctx, r); ClassOf(err) != NotFound {
		return errors.Join(fmt.Errorf("delete reported that the instance is gone, and get finds it %s", still.State), err)
	}
	return nil
}

func deletesNothing(ctx context.Context, e Conformance) error {
	gone, err := e.Driver.Delete(ctx, e.request())
	if ClassOf(err) == NotFound || (gone && err == nil) {
		return nil
	}
	return errors.Join(fmt.Errorf("delete of what was never made: gone is %t", gone), err)
}

func deletesBare(ctx context.Context, e Conformance) error {
	r := e.request()
	instance, made, err := e.create(ctx, r)
	if err != nil {
		return errors.Join(err, e.gone(ctx, made))
	}
	bare := Request{
		Token: r.Token, ProviderID: instance.ProviderID, Resume: instance.Resume, Account: r.Account, Credentials: r.Credentials,
		Spec: e.Invalid,
	}
	if err := e.gone(ctx, bare); err != nil {
		return errors.Join(fmt.Errorf("delete without a specification: %w", err), e.gone(ctx, made))
	}
	return nil
}

func deletesOne(ctx context.Context, e Conformance) error {
	going, staying := e.request(), e.request()
	staying.Name = going.Name
	return e.with(ctx, staying, func(kept Instance) error {
		_, _, err := e.create(ctx, going)
		if err == nil {
			_, err = e.found(ctx, staying, "the other instance")
		}
		if err := errors.Join(err, e.gone(ctx, going)); err != nil { // by its token alone
			return err
		}
		still, err := e.Driver.Get(ctx, staying)
		if err != nil || still.ProviderID != kept.ProviderID || still.State == Deleting {
			return errors.Join(fmt.Errorf("the other instance is %s %s now", still.ProviderID, still.State), err)
		}
		return nil
	})
}

func stops(ctx context.Context, e Conformance) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	r := e.request()
	instance, err := e.Driver.Create(ended, r)
	if err == nil {
		return errors.Join(fmt.Errorf("a create whose context had ended made %s", instance.ProviderID), e.gone(ctx, r))
	}
	if gone, err := e.Driver.Delete(ended, r); err == nil {
		return fmt.Errorf("a delete whose context had ended has no error, and gone is %t", gone)
	}
	return nil
}

func hides(ctx context.Context, e Conformance) error {
	values, err := e.Request.Credentials.Read(ctx)
	if err != nil && !errors.Is(err, ErrNoCredentials) {
		return err
	}
	r := e.request()
	r.Spec = e.Invalid
	_, err = e.Driver.Create(ctx, r)
	if err == nil {
		err = e.gone(ctx, r)
	}
	_, missing := e.Driver.Get(ctx, r)
	for _, err := range []error{err, missing} {
		text := fmt.Sprint(err)
		if strings.Contains(text, userDataSecret) {
			return errors.New("an error contains the user data")
		}
		for name, value := range values {
			if len(value) > 0 && bytes.Contains([]byte(text), value) {
				return fmt.Errorf("an error contains the credential %s", name)
			}
		}
	}
	return nil
}
