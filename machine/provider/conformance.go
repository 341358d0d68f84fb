package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

// Conformance configures the cases.
type Conformance struct {
	// Driver is the Driver under test.
	Driver Driver
	// Request is the request of the cases: a specification that the Driver accepts, with its Account and Credentials. The cases fill in Token,
	// Name and UserData; use a Cluster that only the tests use.
	Request Request
	// Invalid is a specification that the provider will never accept.
	Invalid json.RawMessage
	// Token returns a new Token for each call. Required, because a real cloud remembers the Tokens of earlier runs.
	Token func() string
	// Limit is how long a case waits for an instance to run or to be gone. Default five minutes.
	Limit time.Duration
	// Pause is the time between two polls. Default two seconds.
	Pause time.Duration
}

// Case is one rule for Drivers.
type Case struct {
	// Name is a sentence about the Driver.
	Name string
	// Reason is the harm that the rule prevents.
	Reason string
	// Run returns a violation of the rule as an error, or nil. It stops when ctx ends.
	Run func(ctx context.Context, e Conformance) error
}

// Cases returns all cases. Cases about an optional interface pass for a Driver without it.
func Cases() []Case {
	return []Case{
		{"a new instance has its token and its provider ID", "Machines and Nodes are matched by them", identifies},
		{"a new instance runs after a while", "a Machine would wait for ever", runs},
		{"a second create with a token returns the same instance", "the answer to the first may be lost", repeats},
		{"concurrent creates with a token make one instance", "a process that lost its Lease may still be creating", races},
		{"an instance is found by its token and by its provider ID", "the provider ID may not be recorded yet", finds},
		{"an instance that does not exist is NotFound", "absence and ignorance lead to opposite actions", misses},
		{"a deletion ends, and the instance is gone then", "a Machine must not go before its instance", deletes},
		{"a deletion of what does not exist is gone", "the last answer may be lost", deletesNothing},
		{"a deletion needs no specification", "it may have become invalid, or its class be gone", deletesBare},
		{"a deletion leaves other instances alone, also those with the same name", "names are used again", deletesOne},
		{"an invalid specification makes nothing and is Invalid", "it is created again when the specification changes", refuses},
		{"a validation makes nothing and agrees with create", "a Machine reports what is wrong before it costs a call", validates},
		{"defaults are added once, and change no input", "a defaulted specification would differ in each pass", defaults},
		{"a list has the instances of its cluster with their tokens, and no others", "instances without a Machine are found by it", lists},
		{"a call whose context has ended makes nothing", "a process that stops must stop", stops},
		{"no error has user data or credentials", "errors are stored in objects and logs", hides},
	}
}

// request returns a request for a new instance.
func (e Conformance) request() Request {
	r := e.Request
	r.Token = e.Token()
	r.Name = "conformance-" + r.Token
	r.UserData = []byte("#cloud-config\n# " + userDataSecret + "\n")
	return r
}

// userDataSecret must not be in an error.
const userDataSecret = "user-data-of-the-conformance-suite"

// create creates an instance, and returns the request that deletes it.
func (e Conformance) create(ctx context.Context, r Request) (Instance, Request, error) {
	instance, err := e.Driver.Create(ctx, r)
	if err != nil {
		return instance, r, fmt.Errorf("create: %w", err)
	}
	r.ProviderID, r.Resume = instance.ProviderID, instance.Resume
	return instance, r, nil
}

// with creates an instance, calls a function with it, and deletes it.
func (e Conformance) with(ctx context.Context, r Request, look func(Instance) error) error {
	instance, made, err := e.create(ctx, r)
	if err == nil {
		err = look(instance)
	}
	return errors.Join(err, e.gone(ctx, made))
}

// gone deletes an instance and waits until it is gone, even after ctx has ended.
func (e Conformance) gone(ctx context.Context, r Request) error {
	ctx = context.WithoutCancel(ctx)
	return e.eventually(ctx, "the instance "+r.Token+" to be gone", func(ctx context.Context) (bool, error) {
		gone, err := e.Driver.Delete(ctx, r)
		if ClassOf(err) == NotFound {
			return true, nil
		}
		return gone, err
	})
}

// found waits until Get finds an instance: a new instance may be visible late.
func (e Conformance) found(ctx context.Context, r Request, what string) (instance Instance, err error) {
	err = e.eventually(ctx, what, func(ctx context.Context) (bool, error) {
		instance, err = e.Driver.Get(ctx, r)
		return err == nil, err
	})
	return instance, err
}

// eventually calls a function until it is done. Errors are retried; the last one is part of the result.
func (e Conformance) eventually(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	limit := cmp.Or(e.Limit, 5*time.Minute)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		ok, err := done(ctx)
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waited %s for %s", limit, what), err)
		case <-clock.RealClock{}.After(cmp.Or(e.Pause, 2*time.Second)): // the cloud has no other clock
		}
	}
}
