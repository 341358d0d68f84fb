package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// DriverOptions are the habits of a cloud. With the zero value it acts at once, has no limits and loses nothing.
type DriverOptions struct {
	// Boot is how long an instance is Creating, and Vanish how long it is Deleting.
	Boot, Vanish time.Duration
	// Hidden is for how long Get and List do not show a new instance, and Delete does not find it by its token alone. A Create with the same
	// token finds it: clouds keep their tokens consistently.
	Hidden time.Duration
	// Quota is how many instances may exist, those in deletion included; zero is no limit.
	Quota int
	// PerSecond is how many calls a second the cloud allows, with a Burst of as many, at least one; zero is no limit. More are errors of the
	// class RateLimited with RetryAfter.
	PerSecond float64
	// Zones are the failure domains in which instances are made, in turn. Without any, instances do not say where they are.
	Zones []string
	// Token, when it is not empty, must be the value "token" of the credentials. Other calls wait while these are read, so that reading them
	// must not call methods of the Driver.
	Token string
	// Answer is called after each call that was carried out; an error of it replaces the answer, which is lost. Nil loses nothing. It is
	// called by one goroutine at a time, and must not call methods of the Driver, which wait for it.
	Answer func(op cloud.Operation, r cloud.Request) error
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Driver is a cloud in memory. Its specification is JSON with a size, which defaults to small. Safe for concurrent use.
type Driver struct {
	options DriverOptions

	mu        sync.Mutex
	habits    habits
	instances map[string]*cloudInstance // by token
	made      map[string]int
	calls     map[cloud.Operation]int
	next      int
}

// cloudInstance is an instance of a Driver.
type cloudInstance struct {
	id, name, cluster string
	created, deleted  time.Time
	userData          string
	number            int
}

// driverSpec is the specification of a Driver's instances.
type driverSpec struct {
	Size string `json:"size"`
}

// NewDriver returns a cloud without instances.
func NewDriver(o DriverOptions) *Driver {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Driver{
		options: o, instances: map[string]*cloudInstance{}, made: map[string]int{}, calls: map[cloud.Operation]int{},
		habits: newHabits(o.Hidden, o.Vanish, o.Quota, o.PerSecond, o.Answer, o.Clock),
	}
}

// Name implements provider.Driver.
func (d *Driver) Name() string { return "fake" }

// Made returns how many instances were ever made for a token. More than one is a defect of the caller, or of a decorator.
func (d *Driver) Made(token string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[token]
}

// Calls returns how many calls of an operation were made, refused ones included.
func (d *Driver) Calls(op cloud.Operation) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[op]
}

// UserData returns the first-boot data of an instance, empty without one.
func (d *Driver) UserData(token string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := d.instances[token]; i != nil {
		return i.userData
	}
	return ""
}

// Lose removes an instance as if its hardware were gone. It reports whether there was one.
func (d *Driver) Lose(token string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, found := d.instances[token]
	delete(d.instances, token)
	return found
}

// begin is what every call goes through first. The caller holds the lock.
func (d *Driver) begin(ctx context.Context, op cloud.Operation, r cloud.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.calls[op]++
	if err := d.habits.limited(); err != nil {
		return err
	}
	if d.options.Token == "" {
		return nil
	}
	values, err := r.Credentials.Read(ctx)
	if err != nil && !errors.Is(err, cloud.ErrNoCredentials) {
		return err
	}
	if string(values["token"]) != d.options.Token {
		return cloud.Errorf(cloud.Unauthenticated, "the fake cloud does not know the token of account %q", r.Account)
	}
	return nil
}

// Validate implements provider.Validator.
func (d *Driver) Validate(ctx context.Context, r cloud.Request) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, cloud.OpValidate, r); err != nil {
		return err
	}
	return errors.Join(d.valid(r), d.habits.lost(cloud.OpValidate, r))
}

func (d *Driver) valid(r cloud.Request) error {
	var spec driverSpec
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		return cloud.Errorf(cloud.Invalid, "the specification is no JSON object with a size: %w", err)
	}
	if sizes := []string{"small", "large"}; !slices.Contains(sizes, spec.Size) {
		return cloud.Errorf(cloud.Invalid, "size %q: give one of %s", spec.Size, strings.Join(sizes, ", "))
	}
	return nil
}

// AddDefaults implements provider.Defaulter.
func (d *Driver) AddDefaults(spec json.RawMessage) (json.RawMessage, error) {
	content := map[string]any{}
	if len(spec) > 0 {
		if err := json.Unmarshal(spec, &content); err != nil {
			return nil, cloud.Errorf(cloud.Invalid, "the specification is no JSON object: %w", err)
		}
	}
	if _, found := content["size"]; found {
		return spec, nil
	}
	content["size"] = "small"
	return json.Marshal(content)
}

// Create implements provider.Driver.
func (d *Driver) Create(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, cloud.OpCreate, r); err != nil {
		return cloud.Instance{}, err
	}
	d.sweep()
	i := d.instances[r.Token]
	if i == nil {
		if err := d.valid(r); err != nil {
			return cloud.Instance{}, err
		}
		if err := d.habits.full(len(d.instances)); err != nil {
			return cloud.Instance{}, err
		}
		d.next++
		i = &cloudInstance{
			id: fmt.Sprintf("fake://%d", d.next), name: r.Name, cluster: r.Cluster, created: d.options.Clock.Now(), userData: string(r.UserData),
			number: d.next,
		}
		d.instances[r.Token] = i
		d.made[r.Token]++
	}
	return d.shown(r.Token, i), d.habits.lost(cloud.OpCreate, r)
}

// Get implements provider.Driver.
func (d *Driver) Get(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, cloud.OpGet, r); err != nil {
		return cloud.Instance{}, err
	}
	d.sweep()
	token, i := d.find(r)
	if i == nil || d.habits.hides(i.created) {
		return cloud.Instance{}, cloud.Errorf(cloud.NotFound, "there is no instance %s", r.Token)
	}
	return d.shown(token, i), d.habits.lost(cloud.OpGet, r)
}

// Delete implements provider.Driver.
func (d *Driver) Delete(ctx context.Context, r cloud.Request) (gone bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, cloud.OpDelete, r); err != nil {
		return false, err
	}
	d.sweep()
	_, i := d.find(r)
	if i == nil || (r.ProviderID == "" && d.habits.hides(i.created)) {
		return true, d.habits.lost(cloud.OpDelete, r)
	}
	if i.deleted.IsZero() {
		i.deleted = d.options.Clock.Now()
	}
	d.sweep()
	_, i = d.find(r)
	return i == nil, d.habits.lost(cloud.OpDelete, r)
}

// List implements provider.Lister.
func (d *Driver) List(ctx context.Context, r cloud.Request) ([]cloud.Instance, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin(ctx, cloud.OpList, r); err != nil {
		return nil, err
	}
	d.sweep()
	var all []cloud.Instance
	for token, i := range d.instances {
		if i.cluster == r.Cluster && !d.habits.hides(i.created) {
			all = append(all, d.shown(token, i))
		}
	}
	slices.SortFunc(all, func(a, b cloud.Instance) int { return strings.Compare(a.Token, b.Token) })
	return all, d.habits.lost(cloud.OpList, r)
}

// find returns the instance of a request, nil without. A provider ID counts alone.
func (d *Driver) find(r cloud.Request) (token string, i *cloudInstance) {
	if r.ProviderID == "" {
		return r.Token, d.instances[r.Token]
	}
	for token, i := range d.instances {
		if i.id == r.ProviderID {
			return token, i
		}
	}
	return "", nil
}

// sweep removes the instances whose deletion is over.
func (d *Driver) sweep() {
	for token, i := range d.instances {
		if d.habits.vanished(i.deleted) {
			delete(d.instances, token)
		}
	}
}

// shown is what the cloud says about an instance.
func (d *Driver) shown(token string, i *cloudInstance) cloud.Instance {
	state := cloud.Running
	switch {
	case !i.deleted.IsZero():
		state = cloud.Deleting
	case d.options.Clock.Now().Sub(i.created) < d.options.Boot:
		state = cloud.Creating
	}
	ip := fmt.Sprintf("10.%d.%d.%d", i.number>>16&255, i.number>>8&255, i.number&255)
	shown := cloud.Instance{
		ProviderID: i.id, Token: token, Name: i.name, State: state,
		Addresses: []cloud.Address{{Type: "InternalIP", Address: ip}, {Type: "Hostname", Address: i.name}},
	}
	if zones := d.options.Zones; len(zones) > 0 {
		shown.FailureDomain = zones[i.number%len(zones)]
	}
	return shown
}
