package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/provider"
)

// failing returns the names of the cases that a Driver does not pass.
func failing(t *testing.T, driver provider.Driver) []string {
	t.Helper()
	env := provider.Conformance{
		Driver: driver, Invalid: []byte(`{"size":"enormous"}`), Limit: time.Minute, Pause: time.Millisecond, Token: tokens(),
		Request: provider.Request{
			Cluster: "conformance", Spec: []byte(`{"size":"large"}`), Account: "default/cloud",
			Credentials: func(context.Context) (provider.Values, error) { return provider.Values{"token": []byte("s3cret")}, nil },
		},
	}
	var mu sync.Mutex
	var failed []string
	var all sync.WaitGroup
	for _, c := range provider.Cases() {
		all.Go(func() {
			if err := c.Run(t.Context(), env); err != nil {
				mu.Lock()
				defer mu.Unlock()
				t.Logf("%s: %v", c.Name, err)
				failed = append(failed, c.Name)
			}
		})
	}
	all.Wait()
	return failed
}

func tokens() func() string {
	var mu sync.Mutex
	var n int
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprint("token-", n)
	}
}

func TestEveryCaseNamesItsReason(t *testing.T) {
	names := map[string]bool{}
	for _, c := range provider.Cases() {
		require.NotEmpty(t, c.Reason)
		require.False(t, names[c.Name], c.Name)
		names[c.Name] = true
	}
}

func TestADriverWithTheHabitsOfCloudsPasses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]fake.DriverOptions{
		"at once":     {},
		"with a lock": {Token: "s3cret"},
		"slow and late": {
			Boot: 30 * time.Millisecond, Vanish: 30 * time.Millisecond, Hidden: 20 * time.Millisecond, Token: "s3cret",
		},
	} {
		require.Empty(t, failing(t, fake.NewDriver(o)), name)
	}
}

func TestADriverWithAnyFormOfProviderIDPasses(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]string{
		"Oracle's, without a scheme": "ocid1.instance.oc1.iad.%s",
		"Azure's, with parentheses":  "azure:///subscriptions/s/resourceGroups/rg-(eu)/vm-(%s)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &faulty{Driver: fake.NewDriver(fake.DriverOptions{})}
			shown := func(i provider.Instance, err error) (provider.Instance, error) {
				if id, found := strings.CutPrefix(i.ProviderID, "fake://"); found {
					i.ProviderID = fmt.Sprintf(form, id)
				}
				return i, err
			}
			asked := func(r provider.Request) provider.Request {
				before, after, _ := strings.Cut(form, "%s")
				if id, found := strings.CutPrefix(r.ProviderID, before); found {
					r.ProviderID = "fake://" + strings.TrimSuffix(id, after)
				}
				return r
			}
			b.create = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
				return shown(b.Driver.Create(ctx, asked(r)))
			}
			b.get = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
				return shown(b.Driver.Get(ctx, asked(r)))
			}
			b.remove = func(ctx context.Context, r provider.Request) (bool, error) { return b.Driver.Delete(ctx, asked(r)) }
			b.list = func(ctx context.Context, r provider.Request) ([]provider.Instance, error) {
				all, err := b.Driver.List(ctx, asked(r))
				for i := range all {
					all[i], _ = shown(all[i], nil)
				}
				return all, err
			}
			require.Empty(t, failing(t, b))
		})
	}
}

// faulty is a fake cloud with one defect: a method that is set replaces the cloud's.
type faulty struct {
	*fake.Driver

	create, get func(context.Context, provider.Request) (provider.Instance, error)
	remove      func(context.Context, provider.Request) (bool, error)
	validate    func(context.Context, provider.Request) error
	defaults    func(json.RawMessage) (json.RawMessage, error)
	list        func(context.Context, provider.Request) ([]provider.Instance, error)

	mu   sync.Mutex
	seen map[string]int // by token, as the defect needs it
}

func (b *faulty) Create(ctx context.Context, r provider.Request) (provider.Instance, error) {
	if b.create != nil {
		return b.create(ctx, r)
	}
	return b.Driver.Create(ctx, r)
}

func (b *faulty) Get(ctx context.Context, r provider.Request) (provider.Instance, error) {
	if b.get != nil {
		return b.get(ctx, r)
	}
	return b.Driver.Get(ctx, r)
}

func (b *faulty) Delete(ctx context.Context, r provider.Request) (bool, error) {
	if b.remove != nil {
		return b.remove(ctx, r)
	}
	return b.Driver.Delete(ctx, r)
}

func (b *faulty) Validate(ctx context.Context, r provider.Request) error {
	if b.validate != nil {
		return b.validate(ctx, r)
	}
	return b.Driver.Validate(ctx, r)
}

func (b *faulty) AddDefaults(spec json.RawMessage) (json.RawMessage, error) {
	if b.defaults != nil {
		return b.defaults(spec)
	}
	return b.Driver.AddDefaults(spec)
}

func (b *faulty) List(ctx context.Context, r provider.Request) ([]provider.Instance, error) {
	if b.list != nil {
		return b.list(ctx, r)
	}
	return b.Driver.List(ctx, r)
}

// note adds to what was seen of a token, and returns how much that was before.
func (b *faulty) note(token string, n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil {
		b.seen = map[string]int{}
	}
	before := b.seen[token]
	b.seen[token] += n
	return before
}

// defect breaks a Driver, and says which case finds that. No other case does: without it, the defect would pass.
type defect struct {
	name, found string
	options     fake.DriverOptions
	plant       func(*faulty)
}

func defects() []defect {
	return append(defectsOfLives(), defectsOfSpecifications()...)
}

func defectsOfLives() []defect {
	return []defect{
		{name: "create forgets the token", found: "a new instance has its token and its provider ID", plant: func(b *faulty) {
			b.create = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
				i, err := b.Driver.Create(ctx, r)
				i.Token = ""
				return i, err
			}
		}},
		{
			name: "instances never run", found: "a new instance runs after a while",
			options: fake.DriverOptions{Boot: time.Hour}, plant: func(*faulty) {},
		},
		{name: "tokens are forgotten later", found: "a second create with a token returns the same instance", plant: forgetTokens},
		{name: "create looks first, without a lock", found: "concurrent creates with a token make one instance", plant: lookThenCreate},
		{name: "get ignores the provider ID", found: "an instance is found by its token and by its provider ID",
			plant: func(b *faulty) {
				b.get = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
					r.ProviderID = ""
					return b.Driver.Get(ctx, r)
				}
			}},
		{name: "absence is an outage", found: "an instance that does not exist is NotFound", plant: func(b *faulty) {
			b.get = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
				if b.Made(r.Token) == 0 && r.ProviderID == "" {
					return provider.Instance{}, provider.Errorf(provider.Unavailable, "404")
				}
				return b.Driver.Get(ctx, r)
			}
		}},
		{
			name: "a deletion that began is gone", found: "a deletion ends, and the instance is gone then",
			options: fake.DriverOptions{Vanish: time.Hour}, plant: func(b *faulty) {
				b.remove = func(ctx context.Context, r provider.Request) (bool, error) {
					_, err := b.Driver.Delete(ctx, r)
					return true, err
				}
			},
		},
		{name: "a deletion of nothing is an error", found: "a deletion of what does not exist is gone", plant: func(b *faulty) {
			b.remove = func(ctx context.Context, r provider.Request) (bool, error) {
				if b.Made(r.Token) == 0 {
					return false, provider.Errorf(provider.Unavailable, "404")
				}
				return b.Driver.Delete(ctx, r)
			}
		}},
		{name: "a deletion goes by the name", found: "a deletion leaves other instances alone, also those with the same name", plant: byName},
		{name: "the context is ignored", found: "a call whose context has ended makes nothing", plant: func(b *faulty) {
			b.create = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
				return b.Driver.Create(context.WithoutCancel(ctx), r)
			}
		}},
	}
}

func forgetTokens(b *faulty) {
	b.get = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
		i, err := b.Driver.Get(ctx, r)
		if err == nil {
			b.note(r.Token, 1)
		}
		return i, err
	}
	b.create = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
		if b.note(r.Token, 0) > 0 {
			r.Token += "-again"
		}
		return b.Driver.Create(ctx, r)
	}
}

func lookThenCreate(b *faulty) {
	b.create = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
		i, err := b.Driver.Get(ctx, r)
		if err == nil {
			return i, nil
		}
		mine := b.note(r.Token, 1)
		for range 500 { // until another one has looked too
			if b.note(r.Token, 0) > 1 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if token := r.Token; mine > 0 {
			r.Token += fmt.Sprint("-", mine)
			i, err = b.Driver.Create(ctx, r)
			i.Token = token
			return i, err
		}
		return b.Driver.Create(ctx, r)
	}
}

func byName(b *faulty) {
	var mu sync.Mutex
	named := map[string][]provider.Request{}
	name := map[string]string{}
	b.create = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
		mu.Lock()
		named[r.Name], name[r.Token] = append(named[r.Name], r), r.Name
		mu.Unlock()
		return b.Driver.Create(ctx, r)
	}
	b.remove = func(ctx context.Context, r provider.Request) (gone bool, err error) {
		mu.Lock()
		all := named[name[r.Token]]
		mu.Unlock()
		for _, other := range all {
			if _, err := b.Driver.Delete(ctx, other); err != nil {
				return false, err
			}
		}
		return b.Driver.Delete(ctx, r)
	}
}

func defectsOfSpecifications() []defect {
	return []defect{
		{name: "delete validates", found: "a deletion needs no specification", plant: func(b *faulty) {
			b.remove = func(ctx context.Context, r provider.Request) (bool, error) {
				if err := b.Driver.Validate(ctx, r); err != nil && b.Made(r.Token) > 0 {
					return false, err
				}
				return b.Driver.Delete(ctx, r)
			}
		}},
		{name: "what is invalid is an outage", found: "an invalid specification makes nothing and is Invalid", plant: func(b *faulty) {
			b.create = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
				i, err := b.Driver.Create(ctx, r)
				if provider.ClassOf(err) == provider.Invalid {
					err = provider.Errorf(provider.Unavailable, "400")
				}
				return i, err
			}
		}},
		{name: "validate accepts everything", found: "a validation makes nothing and agrees with create", plant: func(b *faulty) {
			b.validate = func(context.Context, provider.Request) error { return nil }
		}},
		{name: "defaults are added each time", found: "defaults are added once, and change no input", plant: func(b *faulty) {
			b.defaults = func(spec json.RawMessage) (json.RawMessage, error) {
				return append(bytes.Clone(spec), ' '), nil
			}
		}},
		{
			name: "the list has all clusters", found: "a list has the instances of its cluster with their tokens, and no others",
			plant: func(b *faulty) {
				b.list = func(ctx context.Context, r provider.Request) ([]provider.Instance, error) {
					other := r
					other.Cluster = strings.TrimSuffix(r.Cluster, "-other")
					all, err := b.Driver.List(ctx, r)
					more, _ := b.Driver.List(ctx, other)
					return append(all, more...), err
				}
			},
		},
		{name: "an error repeats the request", found: "no error has user data or credentials", plant: func(b *faulty) {
			b.create = func(ctx context.Context, r provider.Request) (provider.Instance, error) {
				i, err := b.Driver.Create(ctx, r)
				if provider.ClassOf(err) == provider.Invalid {
					err = provider.Errorf(provider.Invalid, "400: POST /instances %s", r.UserData)
				}
				return i, err
			}
		}},
	}
}

func TestEachDefectIsFoundByOneCaseAndEachCaseFindsOne(t *testing.T) {
	t.Parallel()
	left := map[string]bool{}
	for _, c := range provider.Cases() {
		left[c.Name] = true
	}
	for _, d := range defects() {
		delete(left, d.found)
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // waits that cannot succeed take no time
				b := &faulty{Driver: fake.NewDriver(d.options)}
				d.plant(b)
				require.Equal(t, []string{d.found}, failing(t, b))
			})
		})
	}
	require.Empty(t, left, "cases without a defect that only they find")
}
