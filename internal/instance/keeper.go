package instance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/noderef"
)

// DefaultRefresh is the default of Options.Refresh, and the time between two reads of a failed instance: it may be lost or repaired.
const DefaultRefresh = 10 * time.Minute

// Options configure a Keeper.
type Options struct {
	// Calls are the calls of the Driver, usually decorated with deadlines, a rate limit and a cache. Create, Get and Delete are required.
	Calls provider.Calls
	// Backoff defines the delay after an error. Default provider.DefaultBackoff().
	Backoff provider.Backoff
	// Poll is the time between two reads of an instance that does not run yet or is being deleted. Default ten seconds.
	Poll time.Duration
	// Refresh is the time between two reads of a running instance, because no event reports its loss. Default DefaultRefresh; negative: only
	// events cause a read.
	Refresh time.Duration
}

// Keeper makes the calls to one Driver. Safe for concurrent use for different Tokens.
type Keeper struct {
	options  Options
	attempts attempts
}

// NewKeeper returns a Keeper. It makes no call.
func NewKeeper(o Options) (*Keeper, error) {
	if o.Calls.Create == nil || o.Calls.Get == nil || o.Calls.Delete == nil {
		return nil, errors.New("Options.Calls has no Create, Get or Delete: use provider.Of")
	}
	if o.Backoff == nil {
		o.Backoff = provider.DefaultBackoff()
	}
	if o.Poll <= 0 {
		o.Poll = 10 * time.Second
	}
	o.Refresh = cmp.Or(o.Refresh, DefaultRefresh)
	return &Keeper{options: o, attempts: attempts{all: map[attemptKey]attempt{}}}, nil
}

// Input contains the facts of one pass about an instance. A Keeper does not change it.
type Input struct {
	// Request is the Driver's input, without defaults and first-boot data; Token is required, and ProviderID when it is recorded.
	Request provider.Request
	// Err is why the Request is incomplete, or nil. A deletion makes its call nevertheless.
	Err error
	// Provisioned: the instance ran before, or is known to be lost. Deleting: the Machine is being deleted, so nothing is created.
	Provisioned, Deleting bool
	// FirstBoot returns the first-boot data. It is called before each creation, with the Request and its defaults. Nil: the instance needs
	// none. AwaitsData: there is none yet.
	FirstBoot  func(context.Context, provider.Request) ([]byte, error)
	AwaitsData bool
	// IsKept reads the object from the API server and reports whether it is the same and not being deleted. It is called before each creation:
	// a process whose cache is behind, or that has lost its Lease without noticing, would create an instance that nothing deletes. Nil: it is
	// not checked.
	IsKept func(context.Context) (bool, error)
	// Announce is called before the first Validate and before a Create, which may take long. It reports whether the pass must end before the
	// call, so that the status reports the call. Nil: it must not.
	Announce func(provider.Operation) bool
	// Now is the time of the pass.
	Now time.Time
}

// Outcome is the result of Ensure.
type Outcome struct {
	Decision

	// Instance is the result of the Driver; zero without one.
	Instance provider.Instance
	// Valid: the Driver has accepted the specification, or the instance is recorded.
	Valid bool
	// Announced: the pass ends here, see Input.Announce.
	Announced bool
	// Unread, in a deletion, is why it is unknown whether there is an instance: its Node may have joined, so the deletion waits. Empty
	// otherwise, and once ten reads in a row have failed.
	Unread string
	// RequeueAfter is the delay before Ensure must be called again; zero when only an event changes anything.
	RequeueAfter time.Duration
}

// Ensure makes the one call that is next, if any: a validation, a creation, or a read of an instance whose provider ID is recorded. An
// error means that the Request is incomplete, and must be retried with back-off; the Decision then reports it too. Every other error is in
// the Decision. For a Machine in deletion without a provider ID, the instance is read by its Token: its Node may have joined already, and
// only the provider ID identifies the Node. The instance is going after the Driver has accepted the first deletion, even while a read still
// shows it.
func (k *Keeper) Ensure(ctx context.Context, in Input) (Outcome, error) {
	o, err := k.ensure(ctx, in)
	o.Going = o.Going || in.Deleting && k.attempts.of(attemptKey{in.Request.Token, true}).accepted
	return o, err
}

func (k *Keeper) ensure(ctx context.Context, in Input) (Outcome, error) {
	recorded := in.Request.ProviderID != ""
	r, asked, refused := k.request(ctx, in)
	if in.Deleting && !recorded {
		return k.lookFor(ctx, r, in.Now), nil
	}
	if refused != nil && provider.ClassOf(refused) != provider.Invalid {
		return withoutInput(in, refused), fmt.Errorf("input of driver %s: %w", k.options.Calls.Name, refused)
	}
	key := attemptKey{token: r.Token}
	a := k.attempts.of(key)
	facts := Facts{Driver: k.options.Calls.Name, Recorded: recorded, Provisioned: in.Provisioned}
	if wait := a.wait(asked, in.Now); wait > 0 {
		facts.Err, facts.Failures = a.err, a.counted()
		return k.outcome(facts, a.valid, wait), nil
	}
	valid, waits := recorded || (a.valid && a.of == asked), false
	if facts.Err = refused; refused == nil {
		facts.Instance, waits, facts.Err = k.ask(ctx, r, in, &valid)
	}
	if errors.Is(facts.Err, errEarly) {
		return k.early(facts.Err, key, attempt{of: asked, valid: valid}, in.Now), nil
	}
	a = a.after(r.Token, asked, facts.Err, k.options.Backoff, in.Now)
	a.valid = valid && refused == nil
	k.attempts.remember(key, a, in.Now)
	if waits { // an event wakes the Machine
		o := Outcome{Valid: true}
		o.set(metav1.ConditionFalse, ReasonWaitingForData, "Waiting for the bootstrap data")
		return o, nil
	}
	facts.Failures = a.counted()
	return k.outcome(facts, a.valid, cmp.Or(a.wait(asked, in.Now), k.options.Poll)), nil
}

// lookFor returns the Outcome for an instance whose provider ID was not recorded before its Machine was deleted. It reports nothing about
// an instance that is not found, which may exist nevertheless: Remove deletes by the Token, and reports errors.
func (k *Keeper) lookFor(ctx context.Context, r provider.Request, now time.Time) Outcome {
	o, key := Outcome{Decision: Decision{Keep: true}}, attemptKey{token: r.Token}
	a := k.attempts.of(key)
	if wait := a.wait(looking, now); wait > 0 {
		return k.unread(o, a, wait)
	}
	found, err := k.options.Calls.Get(ctx, r)
	if err == nil {
		o.Instance, o.Going, o.Adopt = found, found.State == provider.Deleting, noderef.ValidProviderID(found.ProviderID)
		if !o.Adopt && !slices.Contains([]provider.State{provider.Creating, provider.Deleting, provider.Failed}, found.State) {
			err = errors.New("the instance runs, or may have run, and has no provider ID")
		}
	}
	if slices.Contains([]provider.Class{"", provider.NotFound, provider.Invalid, provider.Terminal}, provider.ClassOf(err)) {
		return o
	}
	a, wait := k.later(key, a, looking, err, now)
	return k.unread(o, a, wait)
}

// unread makes a deletion wait after a failed read, unless too many have failed.
func (k *Keeper) unread(o Outcome, a attempt, wait time.Duration) Outcome {
	if provider.IsDelayed(a.err) || a.failures < neverThere {
		o.Unread, o.RequeueAfter = fmt.Sprintf("%s: %s: whether there is an instance is not known", k.options.Calls.Name, a.err), wait
	}
	return o
}

// errEarly matches the errors that end a pass before a call: the object of a creation is gone or being deleted, which the cache does not
// show yet; or the status must be stored first, because the call may take long.
var (
	errEarly     = errors.New("the pass ends early")
	errNotKept   = fmt.Errorf("%w: the object is being deleted", errEarly)
	errAnnounced = fmt.Errorf("%w: the status has first what goes on", errEarly)
)

// early returns the Outcome of a pass that ends early, because of err. The attempt is stored for the next pass, which makes the call.
func (k *Keeper) early(err error, key attemptKey, a attempt, now time.Time) Outcome {
	o := Outcome{Decision: Decision{Keep: true}, Valid: a.valid} // of an object that is not kept, an event follows
	if !errors.Is(err, errAnnounced) {
		return o
	}
	k.attempts.remember(key, a, now)
	o.Announced, o.RequeueAfter = true, time.Nanosecond
	if a.valid {
		o.Keep = false
		o.set(metav1.ConditionFalse, ReasonCreating, "The instance is being created")
	}
	return o
}

// withoutInput returns the Outcome while the Request is incomplete. It does not change the condition of an instance that ran.
func withoutInput(in Input, err error) Outcome {
	o := Outcome{Decision: Decision{Keep: in.Provisioned}, Valid: in.Request.ProviderID != ""}
	if !o.Keep {
		o.set(metav1.ConditionUnknown, ReasonNoInput, err.Error())
	}
	return o
}

func (k *Keeper) outcome(facts Facts, valid bool, wait time.Duration) Outcome {
	o := Outcome{Decision: Decide(facts), Instance: facts.Instance, Valid: facts.Recorded || valid, RequeueAfter: wait}
	switch {
	case facts.Err != nil:
	case o.Provisioned:
		o.RequeueAfter = max(0, k.options.Refresh)
	case facts.Instance.State == provider.Failed: // a quota may be raised, or a host repaired
		o.RequeueAfter = DefaultRefresh
	default:
		o.RequeueAfter = k.options.Poll
	}
	return o
}

// request completes the Request with defaults, and returns its fingerprint. Neither defaults nor a change of the specification concern an
// existing instance.
func (k *Keeper) request(ctx context.Context, in Input) (provider.Request, string, error) {
	r, err := in.Request, in.Err
	switch {
	case err != nil && !in.Deleting:
		return r, "refused: " + err.Error(), err // another error must be reported too
	case r.ProviderID != "":
		return r, looking, nil
	}
	if k.options.Calls.AddDefaults != nil { // a look by the Token may need them
		var spec json.RawMessage
		if spec, err = k.options.Calls.AddDefaults(r.Spec); err == nil {
			r.Spec = spec
		}
	}
	if in.Deleting { // what is wrong with the specification concerns nobody any more
		return r, looking, nil
	}
	return r, fingerprint(ctx, &r), err
}

// ask makes the next call. It sets valid when the Driver has accepted the specification. waits: the first-boot data is missing.
func (k *Keeper) ask(ctx context.Context, r provider.Request, in Input, valid *bool) (i provider.Instance, waits bool, err error) {
	calls := k.options.Calls
	announces := func(op provider.Operation) bool { return in.Announce != nil && in.Announce(op) }
	if r.ProviderID != "" {
		i, err = calls.Get(ctx, r)
		return i, false, err
	}
	if calls.Validate != nil && !*valid {
		if announces(provider.OpValidate) {
			return i, false, errAnnounced
		}
		if err := calls.Validate(ctx, r); err != nil {
			return i, false, err
		}
	}
	if *valid = true; in.AwaitsData {
		return i, true, nil
	}
	if announces(provider.OpCreate) {
		return i, false, errAnnounced
	}
	if in.FirstBoot != nil {
		if r.UserData, err = in.FirstBoot(ctx, r); err != nil {
			return i, false, provider.Errorf(provider.Unavailable, "read first-boot data: %w", err) // any cause may end without an event
		}
	}
	if in.IsKept != nil {
		if kept, err := in.IsKept(ctx); err != nil || !kept {
			return i, false, cmp.Or(err, errNotKept)
		}
	}
	i, err = calls.Create(ctx, r)
	*valid = provider.ClassOf(err) != provider.Invalid
	return i, false, err
}

// Removal is the result of Remove and of Held.
type Removal struct {
	// Gone: nothing is left of the instance.
	Gone bool
	// Message describes what is waited for, and RequeueAfter is the delay before the next call of Remove; empty and zero when it is gone.
	Message      string
	RequeueAfter time.Duration
}

// Held returns the Removal of an instance that is retained: at least one other object of the kind has the same value, which identifies it,
// or the instance was made for it. The object that has made the instance gets its provider ID back, so a person who removes the ID must
// remove the finalizer too.
func (k *Keeper) Held(kind, value, finalizer string, holders []string) Removal {
	who := holders[0]
	if more := len(holders) - 1; more > 0 {
		who += fmt.Sprintf(" (and %d more)", more)
	}
	return Removal{RequeueAfter: k.options.Poll, Message: fmt.Sprintf("The instance with %s is not deleted while %s %s claims it too: "+
		"delete that one as well or, if it has the value, remove it there. To leave the instance to that one, remove the value here and, "+
		"where it comes back, the finalizer %s", value, kind, who, finalizer)}
}

// Remove deletes the instance. Without a provider ID, one result that nothing is left does not end the deletion, because a new instance may
// not be visible yet: the result of a creation was lost or could not be stored, by this process or an earlier one. Then five such results
// in a row are needed, with the delays of the class NotFound between them, however old the Machine is. It needs no complete Request:
// neither a class nor a valid specification, and Secrets only if the Driver reads its credentials from them.
func (k *Keeper) Remove(ctx context.Context, in Input) Removal {
	r, _, _ := k.request(ctx, in) // nothing is refused in a deletion
	key, name := attemptKey{r.Token, true}, k.options.Calls.Name
	a, of, unsure := k.attempts.of(key), deletion, r.ProviderID == ""
	if unsure {
		of = deletionByToken
	}
	if left := a.wait(of, in.Now); left > 0 {
		return Removal{Message: fmt.Sprintf("%s: %s", name, a.err), RequeueAfter: left}
	}
	gone, err := k.options.Calls.Delete(ctx, r)
	switch {
	case gone && err == nil && unsure && a.looksAgain():
		err = errUnseen(a.missed + 1)
	case gone && err == nil:
		k.attempts.forget(r.Token)
		if unsure { // further passes may wait for other objects
			k.attempts.remember(key, attempt{of: of, absent: true}, in.Now)
		}
		return Removal{Gone: true}
	case err == nil:
		k.attempts.remember(key, attempt{of: of, accepted: true}, in.Now)
		return Removal{Message: "The instance is being deleted", RequeueAfter: k.options.Poll}
	}
	message := fmt.Sprintf("%s: %s", name, err)
	if in.Err != nil {
		message += fmt.Sprintf(" (the input could not be read: %s)", in.Err)
	}
	_, wait := k.later(key, a, of, err, in.Now)
	return Removal{Message: message, RequeueAfter: wait}
}

// later records an error of a deletion's call, and returns the delay of the retry.
func (k *Keeper) later(key attemptKey, a attempt, of string, err error, now time.Time) (attempt, time.Duration) {
	a = a.after(key.token, of, err, k.options.Backoff, now)
	k.attempts.remember(key, a, now)
	return a, cmp.Or(a.wait(of, now), k.options.Poll)
}
