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

// DriverOptions configure the behavior of a cloud. With the zero value it acts at once, has no limits and loses no responses.
type DriverOptions struct {
	// Boot is how long an instance is Creating, and Vanish how long it is Deleting.
	Boot, Vanish time.Duration
	// Hidden is how long Get and List do not return a new instance, and Delete does not find it by its token alone. A Create with the same
	// token finds it: tokens of clouds are strongly consistent.
	Hidden time.Duration
	// Quota limits the instances of a cluster, including those in deletion; zero means no limit.
	Quota int
	// PerSecond limits the calls per second, with a burst of the same number, at least one; zero means no limit. Calls beyond it fail with the
	// class RateLimited and RetryAfter.
	PerSecond float64
	// Zones are the failure domains of new instances, in turn. Without zones, instances have no failure domain.
	Zones []string
	// Token, when it is not empty, must be the value "token" of the credentials. Other calls wait while credentials are read, so reading them
	// must not call methods of the Driver.
	Token string
	// Answer is called after each call that was carried out. If it returns an error, that error replaces the response. Nil loses nothing. It
	// is called by one goroutine at a time, and must not call methods of the Driver, which would deadlock.
	Answer func(op cloud.Operation, r cloud.Request) error
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Driver is an in-memory cloud. Its specification is JSON with a size, which defaults to small. Safe for concurrent use.
type Driver struct {
	token string
	cloud cloud.Calls // of memory, with the options applied

	mu     sync.Mutex // held during a call
	memory memory
	calls  map[cloud.Operation]int
}

// NewDriver returns a cloud without instances.
func NewDriver(o DriverOptions) *Driver {
	d := &Driver{token: o.Token, calls: map[cloud.Operation]int{}}
	d.memory = memory{zones: o.Zones, instances: map[string]*cloudInstance{}, made: map[string]int{}}
	d.cloud = cloud.Of(&d.memory, Unreliable(UnreliableOptions{
		Boot: o.Boot, Vanish: o.Vanish, Hidden: o.Hidden, Quota: o.Quota, PerSecond: o.PerSecond, Answer: o.Answer, Clock: o.Clock,
	}), cloud.Around(d.around))
	return d
}

// Name implements provider.Driver.
func (d *Driver) Name() string { return d.memory.Name() }

// Made returns how many instances were ever created for a token. More than one is a defect of the caller, or of a decorator.
func (d *Driver) Made(token string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.memory.made[token]
}

// Calls returns the number of calls of an operation, including rejected ones.
func (d *Driver) Calls(op cloud.Operation) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[op]
}

// UserData returns the first-boot data of an instance, empty if there is none.
func (d *Driver) UserData(token string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := d.memory.instances[token]; i != nil {
		return i.userData
	}
	return ""
}

// Lose removes an instance as if its hardware were gone. It reports whether there was one.
func (d *Driver) Lose(token string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, found := d.memory.instances[token]
	delete(d.memory.instances, token)
	return found
}

// around wraps every call.
func (d *Driver) around(ctx context.Context, op cloud.Operation, r *cloud.Request, call func(context.Context) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	d.calls[op]++
	if d.token != "" {
		values, err := r.Credentials.Read(ctx)
		if err != nil && !errors.Is(err, cloud.ErrNoCredentials) {
			return err
		}
		if string(values["token"]) != d.token {
			return cloud.Errorf(cloud.Unauthenticated, "the fake cloud does not accept the token of account %q", r.Account)
		}
	}
	return call(ctx)
}

// Validate implements provider.Validator.
func (d *Driver) Validate(ctx context.Context, r cloud.Request) error {
	return d.cloud.Validate(ctx, r)
}

// AddDefaults implements provider.Defaulter.
func (d *Driver) AddDefaults(spec json.RawMessage) (json.RawMessage, error) {
	return d.cloud.AddDefaults(spec)
}

// Create implements provider.Driver.
func (d *Driver) Create(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	return d.cloud.Create(ctx, r)
}

// Get implements provider.Driver.
func (d *Driver) Get(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	return d.cloud.Get(ctx, r)
}

// Delete implements provider.Driver.
func (d *Driver) Delete(ctx context.Context, r cloud.Request) (gone bool, err error) {
	return d.cloud.Delete(ctx, r)
}

// List implements provider.Lister.
func (d *Driver) List(ctx context.Context, r cloud.Request) ([]cloud.Instance, error) {
	return d.cloud.List(ctx, r)
}

// memory is a cloud without the options, whose caller holds a lock.
type memory struct {
	zones     []string
	instances map[string]*cloudInstance // by token
	made      map[string]int
	next      int
}

type cloudInstance struct {
	cloud.Instance

	cluster, userData string
}

func (m *memory) Name() string { return "fake" }

func (m *memory) Validate(_ context.Context, r cloud.Request) error {
	var spec struct{ Size string }
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		return cloud.Errorf(cloud.Invalid, "the specification is no JSON object with a size: %w", err)
	}
	if sizes := []string{"small", "large"}; !slices.Contains(sizes, spec.Size) {
		return cloud.Errorf(cloud.Invalid, "size %q: give one of %s", spec.Size, strings.Join(sizes, ", "))
	}
	return nil
}

func (m *memory) AddDefaults(spec json.RawMessage) (json.RawMessage, error) {
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

func (m *memory) Create(ctx context.Context, r cloud.Request) (cloud.Instance, error) {
	if i := m.instances[r.Token]; i != nil {
		return i.Instance, nil
	}
	if err := m.Validate(ctx, r); err != nil {
		return cloud.Instance{}, err
	}
	m.next++
	m.made[r.Token]++
	ip := fmt.Sprintf("10.%d.%d.%d", m.next>>16&255, m.next>>8&255, m.next&255)
	i := &cloudInstance{cluster: r.Cluster, userData: string(r.UserData), Instance: cloud.Instance{
		ProviderID: fmt.Sprintf("fake://%d", m.next), Token: r.Token, Name: r.Name, State: cloud.Running,
		Addresses: []cloud.Address{{Type: "InternalIP", Address: ip}, {Type: "Hostname", Address: r.Name}},
	}}
	if len(m.zones) > 0 {
		i.FailureDomain = m.zones[m.next%len(m.zones)]
	}
	m.instances[r.Token] = i
	return i.Instance, nil
}

func (m *memory) Get(_ context.Context, r cloud.Request) (cloud.Instance, error) {
	if i := m.find(r); i != nil {
		return i.Instance, nil
	}
	return cloud.Instance{}, cloud.Errorf(cloud.NotFound, "there is no instance %s", r.Token)
}

func (m *memory) Delete(_ context.Context, r cloud.Request) (gone bool, err error) {
	if i := m.find(r); i != nil {
		delete(m.instances, i.Token)
	}
	return true, nil
}

func (m *memory) List(_ context.Context, r cloud.Request) ([]cloud.Instance, error) {
	var all []cloud.Instance
	for _, i := range m.instances {
		if i.cluster == r.Cluster {
			all = append(all, i.Instance)
		}
	}
	slices.SortFunc(all, func(a, b cloud.Instance) int { return strings.Compare(a.Token, b.Token) })
	return all, nil
}

// find returns the instance of a request, nil if there is none. If the request has a provider ID, its token is ignored.
func (m *memory) find(r cloud.Request) *cloudInstance {
	if r.ProviderID == "" {
		return m.instances[r.Token]
	}
	for _, i := range m.instances {
		if i.ProviderID == r.ProviderID {
			return i
		}
	}
	return nil
}
