package machine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/noderef"
)

// DriverOptions connect Machines with a provider.Driver.
type DriverOptions struct {
	// Calls are those of the Driver, usually decorated with deadlines, a rate limit and a cache. Required.
	Calls provider.Calls
	// RequestOf returns what the Driver is asked for: the specification, of the Machine or of its class, with Account and Credentials; the
	// Token, the names, the version and the failure domain are filled in where it leaves them empty. It is called in every pass, from several
	// goroutines, must not block, and neither keeps nor changes the state. An error is retried with back-off; in a deletion of a Machine with
	// a provider ID the Driver is asked without its result. Default: contract.MachineState.Provider.Spec, without credentials.
	RequestOf func(context.Context, *contract.MachineState) (provider.Request, error)
	// UserData returns the first-boot data, once before each creation. Nil: the instance needs none, and does not wait for bootstrap data.
	UserData func(context.Context, *contract.MachineState) ([]byte, error)
	// Backoff says how long to wait after an error. Default provider.DefaultBackoff().
	Backoff provider.Backoff
	// Poll is the time between two looks at an instance that does not run yet, or is being deleted. Default ten seconds.
	Poll time.Duration
}

// Reasons of the condition InfrastructureReady of a Machine with a Driver.
const (
	ReasonInstanceCreating = "InstanceCreating"
	ReasonInstanceStopped  = "InstanceStopped"
	ReasonInstanceFailed   = "InstanceFailed"
	ReasonInstanceGone     = "InstanceGone"
	ReasonWaitingForRate   = "WaitingForRate"
	ReasonNoDriverInput    = "NoDriverInput"
)

// WithDriver returns steps in which a Driver takes the place of the infrastructure object: StepInfrastructure creates and reads the
// instance of the Machine, and StepDeleteInfrastructure deletes it. The Token is the UID of the Machine. A Machine whose specification the
// Driver refuses says so in the condition InfrastructureReady, and costs no call until its specification or its credentials change. The
// error matches pass.ErrNoStep. It does not keep Instance.Resume: the Driver finds the instance by its Token until its provider ID is
// recorded.
func WithDriver(steps []Step, o DriverOptions) ([]Step, error) {
	if o.Calls.Create == nil || o.Calls.Get == nil || o.Calls.Delete == nil {
		return nil, errors.New("DriverOptions.Calls has no Create, Get or Delete: use provider.Of")
	}
	if o.RequestOf == nil {
		o.RequestOf = func(_ context.Context, m *contract.MachineState) (provider.Request, error) {
			return provider.Request{Spec: m.Provider.Spec}, nil
		}
	}
	if o.Backoff == nil {
		o.Backoff = provider.DefaultBackoff()
	}
	if o.Poll <= 0 {
		o.Poll = 10 * time.Second
	}
	d := &driver{DriverOptions: o, attempts: map[types.UID]attempt{}}
	steps, err := pass.Replace(steps, StepInfrastructure, Step{Name: StepInfrastructure, On: pass.InBoth, Run: d.run})
	if err != nil {
		return nil, err
	}
	return pass.Replace(steps, StepDeleteInfrastructure, Step{Name: StepDeleteInfrastructure, On: pass.InDeletion, Run: d.remove})
}

// driver are the two steps, and what they remember.
type driver struct {
	DriverOptions

	mu       sync.Mutex
	attempts map[types.UID]attempt
}

// instanceFacts are the inputs of decideInstance.
type instanceFacts struct {
	Driver   string
	Instance provider.Instance
	Err      error
	// Failures is how many times in a row there was an error. Recorded: the Machine has a provider ID. Provisioned: the instance ran before.
	Failures              int
	Recorded, Provisioned bool
}

// instanceDecision is the result of decideInstance.
type instanceDecision struct {
	Condition metav1.Condition
	// Keep: the stored condition stays. Adopt: the provider ID and the addresses are recorded. Provisioned: the instance runs. Off and Gone
	// are for a deletion.
	Keep, Adopt, Provisioned, Off, Gone bool
	Failure                             failure
}

// surelyGone is how often in a row the provider must miss an instance that ran: a read of a cloud may be late.
const surelyGone = 3

// decideInstance says what the answer of a Driver means. Only an instance that ran before can be lost, and only after several looks: a
// new one may be seen late. An instance that is lost is not made again: the Machine fails, and what owns it decides.
func decideInstance(f instanceFacts) instanceDecision {
	say := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return pass.Condition(contract.ConditionInfrastructureReady, status, reason, message)
	}
	if f.Err != nil {
		return decideInstanceError(f, say)
	}
	d := instanceDecision{Adopt: noderef.ValidProviderID(f.Instance.ProviderID)}
	switch f.Instance.State {
	case provider.Creating:
		d.Condition = say(metav1.ConditionFalse, ReasonInstanceCreating, withCause("The instance is being created", f.Instance.Message))
	case provider.Stopped:
		d.Off = true
		d.Condition = say(metav1.ConditionFalse, ReasonInstanceStopped, withCause("The instance is off", f.Instance.Message))
	case provider.Deleting:
		d.Condition = say(metav1.ConditionFalse, ReasonInstanceGone, withCause("The instance is being deleted", f.Instance.Message))
	case provider.Failed:
		message := withCause("The provider reports that the instance cannot run", f.Instance.Message)
		d.Failure = failure{ReasonInstanceFailed, message}
		d.Condition = say(metav1.ConditionFalse, ReasonInstanceFailed, message)
	default:
		if !d.Adopt {
			d.Condition = say(metav1.ConditionFalse, ReasonProviderIDMissing, fmt.Sprintf(
				"driver %s reports an instance with the provider ID %q, which names none: the driver must set it", f.Driver, f.Instance.ProviderID))
			return d
		}
		d.Provisioned = true
		d.Condition = say(metav1.ConditionTrue, contract.ReasonReady, "")
	}
	return d
}

func decideInstanceError(f instanceFacts, say func(metav1.ConditionStatus, string, string) metav1.Condition) instanceDecision {
	class := provider.ClassOf(f.Err)
	_, delayed := provider.IsDelayed(f.Err)
	if f.Provisioned && (delayed || f.Failures < surelyGone) {
		return instanceDecision{Keep: true} // one look that fails says nothing about an instance that ran
	}
	if delayed {
		return instanceDecision{Condition: say(metav1.ConditionFalse, ReasonWaitingForRate,
			"Waiting for a turn: the rate of calls to "+f.Driver+" is limited")}
	}
	if class == provider.NotFound && f.Provisioned {
		const message = "The instance no longer exists: delete the Machine"
		return instanceDecision{Gone: true, Condition: say(metav1.ConditionFalse, ReasonInstanceGone, message),
			Failure: failure{ReasonInstanceGone, message}}
	}
	reason, status := string(class), metav1.ConditionFalse
	if class == provider.Invalid {
		reason = reasonInvalidConfiguration
	}
	if f.Recorded {
		status = metav1.ConditionUnknown // the instance may well run
	}
	return instanceDecision{Condition: say(status, reason, fmt.Sprintf("%s: %s", f.Driver, f.Err))}
}

func withCause(what, message string) string {
	if message == "" {
		return what
	}
	return what + ": " + message
}

// request returns what the Driver is asked for, and its fingerprint.
func (d *driver) request(ctx context.Context, s *Scope) (provider.Request, string, error) {
	r, err := d.RequestOf(ctx, &s.State)
	if err != nil {
		return d.identify(provider.Request{}, s), "", err
	}
	if d.Calls.AddDefaults != nil && s.State.ProviderID == "" { // it changes nothing about an instance that exists
		if r.Spec, err = d.Calls.AddDefaults(r.Spec); err != nil {
			return d.identify(r, s), d.fingerprint(ctx, &r), err
		}
	}
	r = d.identify(r, s)
	return r, d.fingerprint(ctx, &r), nil
}

// identify fills in what follows from the Machine.
func (d *driver) identify(r provider.Request, s *Scope) provider.Request {
	fill := func(into *string, value string) {
		if *into == "" {
			*into = value
		}
	}
	fill(&r.Token, string(s.State.UID))
	fill(&r.Name, s.State.Key.Name)
	fill(&r.Cluster, s.State.ClusterName)
	fill(&r.Version, s.State.Version)
	fill(&r.FailureDomain, s.State.WantedFailureDomain)
	r.ProviderID = s.State.ProviderID
	return r
}

// fingerprint is a digest of what a refusal depends on: another one is asked for at once.
func (d *driver) fingerprint(ctx context.Context, r *provider.Request) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %q %q\n", r.Spec, r.Version, r.FailureDomain, r.Account)
	values, err := r.Credentials.Read(ctx)
	fmt.Fprintf(sum, "%t\n", err != nil)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(sum, "%q %q\n", name, values[name])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// run creates or reads the instance, and copies what the Driver says about it.
func (d *driver) run(ctx context.Context, s *Scope) (Result, error) {
	recorded, deleting := s.State.ProviderID != "", s.Deleting()
	if deleting && !recorded {
		return Result{}, nil // there is nothing to look at, or its name is lost: the deletion asks by the token
	}
	r, fingerprint, err := d.request(ctx, s)
	if err != nil && provider.ClassOf(err) != provider.Invalid && !deleting {
		if !s.State.InfrastructureReady.Or(false) {
			s.Assert(pass.Condition(contract.ConditionInfrastructureReady, metav1.ConditionUnknown, ReasonNoDriverInput, err.Error()))
		}
		return Result{}, fmt.Errorf("input of driver %s: %w", d.Calls.Name, err)
	}
	now, a := s.Now, d.attempt(s.State.UID)
	facts := instanceFacts{Driver: d.Calls.Name, Recorded: recorded, Provisioned: s.State.InfrastructureReady.Or(false)}
	wait, held := a.holds(fingerprint, now)
	switch {
	case held:
		facts.Err = a.err
	case err != nil && !deleting:
		facts.Err = err
		a = a.after(fingerprint, err, d.Backoff, now)
	default:
		valid := recorded || (a.valid && a.of == fingerprint)
		var waits bool
		facts.Instance, waits, facts.Err = d.ask(ctx, s, r, &valid)
		a = a.after(fingerprint, facts.Err, d.Backoff, now)
		if a.valid = valid; waits {
			s.validated = contract.Some(true)
			d.remember(s.State.UID, a, now)
			s.Assert(pass.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, ReasonWaitingForBootstrapData,
				"Waiting for the bootstrap data"))
			return Result{}, nil // its event wakes the Machine
		}
	}
	s.validated = contract.Some(recorded || a.valid)
	if !held {
		d.remember(s.State.UID, a, now)
		wait, _ = a.holds(fingerprint, now)
	}
	facts.Failures = a.failures
	return d.apply(s, facts, wait), nil
}

// ReasonWaitingForBootstrapData is the reason of InfrastructureReady while an instance waits for its first-boot data.
const ReasonWaitingForBootstrapData = "WaitingForBootstrapData"

// ask makes the call that is next. It sets valid when the Driver has accepted the specification. waits says that the bootstrap data is
// missing.
func (d *driver) ask(ctx context.Context, s *Scope, r provider.Request, valid *bool) (i provider.Instance, waits bool, err error) {
	if r.ProviderID != "" {
		i, err = d.Calls.Get(ctx, r)
		return i, false, err
	}
	if d.Calls.Validate != nil && !*valid {
		if err := d.Calls.Validate(ctx, r); err != nil {
			return i, false, err
		}
	}
	*valid = true
	if d.UserData != nil {
		if !s.State.BootstrapReady.Or(false) && !s.State.DataSecretName.Found() {
			return i, true, nil
		}
		if r.UserData, err = d.UserData(ctx, &s.State); err != nil {
			return i, false, fmt.Errorf("read first-boot data: %w", err)
		}
	}
	i, err = d.Calls.Create(ctx, r)
	*valid = provider.ClassOf(err) != provider.Invalid
	return i, false, err
}

// apply carries a decision out. A new provider ID is stored before anything else happens: it is what finds the instance again.
func (d *driver) apply(s *Scope, facts instanceFacts, wait time.Duration) Result {
	decision := decideInstance(facts)
	s.InstanceGone, s.PoweredOff = s.InstanceGone || decision.Gone, s.PoweredOff || decision.Off
	if !decision.Keep {
		s.Assert(decision.Condition)
	}
	s.recordFailure(decision.Failure)
	result := Result{RequeueAfter: wait}
	if decision.Adopt {
		result.Checkpoint = s.State.ProviderID == ""
		s.SetProviderID(facts.Instance.ProviderID)
		if addresses := addressesOf(facts.Instance); len(addresses) > 0 {
			s.SetAddresses(addresses)
		}
		if facts.Instance.FailureDomain != "" {
			s.SetFailureDomain(facts.Instance.FailureDomain)
		}
	}
	if decision.Provisioned {
		s.SetInfrastructureReady()
	} else if facts.Err == nil && facts.Instance.State != provider.Failed {
		result.RequeueAfter = d.Poll
	}
	return result
}

func addressesOf(i provider.Instance) []contract.Address {
	addresses := make([]contract.Address, 0, len(i.Addresses))
	for _, a := range i.Addresses {
		addresses = append(addresses, contract.Address(a))
	}
	return addresses
}

// remove deletes the instance, and waits until the Driver says that it is gone. It needs no valid specification, and no class or Secret
// where the Driver has its credentials from elsewhere.
func (d *driver) remove(ctx context.Context, s *Scope) (Result, error) {
	r, _, err := d.request(ctx, s)
	var input string
	if err != nil {
		input = fmt.Sprintf(" (the input could not be read: %s)", err)
	}
	wait := func(after time.Duration, message string) (Result, error) {
		result := s.Wait(contract.ReasonWaitingForInfrastructureDeletion, message)
		result.RequeueAfter = after
		return result, nil
	}
	const deletion = "deletion" // no fingerprint: another specification changes nothing
	a := d.attempt(s.State.UID)
	if left, held := a.holds(deletion, s.Now); held {
		return wait(left, fmt.Sprintf("%s: %s", d.Calls.Name, a.err))
	}
	gone, err := d.Calls.Delete(ctx, r)
	if gone && err == nil {
		d.forget(s.State.UID)
		s.InstanceGone = true
		return Result{}, nil
	}
	if err == nil {
		d.remember(s.State.UID, attempt{of: deletion}, s.Now)
		return wait(d.Poll, "The instance is being deleted")
	}
	a = a.after(deletion, err, d.Backoff, s.Now)
	if a.until.IsZero() {
		a.until = s.Now.Add(d.Backoff[provider.Exhausted].Max) // what is refused is asked again: the instance costs money
	}
	d.remember(s.State.UID, a, s.Now)
	left, _ := a.holds(deletion, s.Now)
	return wait(left, fmt.Sprintf("%s: %s%s", d.Calls.Name, err, input))
}
