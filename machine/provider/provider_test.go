package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
)

// scripted is a Driver without anything optional, whose answers a test sets.
type scripted struct {
	instance provider.Instance
	err      error
	gone     bool
	calls    int
	deadline bool // the last call had one
}

func (s *scripted) Name() string { return "scripted" }

func (s *scripted) Create(ctx context.Context, _ provider.Request) (provider.Instance, error) {
	return s.instance, s.called(ctx)
}

func (s *scripted) Get(ctx context.Context, _ provider.Request) (provider.Instance, error) {
	return s.instance, s.called(ctx)
}

func (s *scripted) Delete(ctx context.Context, _ provider.Request) (bool, error) {
	return s.gone, s.called(ctx)
}

func (s *scripted) called(ctx context.Context) error {
	s.calls++
	_, s.deadline = ctx.Deadline()
	return s.err
}

// whole has everything optional too.
type whole struct{ scripted }

func (*whole) Validate(context.Context, provider.Request) error                    { return nil }
func (*whole) AddDefaults(spec json.RawMessage) (json.RawMessage, error)           { return spec, nil }
func (*whole) List(context.Context, provider.Request) ([]provider.Instance, error) { return nil, nil }
func (*whole) GetCloudConfig(context.Context, provider.Request) (userdata.File, error) {
	return userdata.File{}, nil
}

// broken panics in every call: its Driver is nil.
type broken struct{ *whole }

func (broken) Name() string { return "broken" }

func (b broken) Validate(ctx context.Context, _ provider.Request) error { return b.called(ctx) }

func (b broken) AddDefaults(json.RawMessage) (json.RawMessage, error) { return nil, b.err }

func (b broken) List(ctx context.Context, _ provider.Request) ([]provider.Instance, error) {
	return nil, b.called(ctx)
}

func (b broken) GetCloudConfig(ctx context.Context, _ provider.Request) (userdata.File, error) {
	return userdata.File{}, b.called(ctx)
}

func TestAPanicOfADriver(t *testing.T) {
	var r provider.Request
	c := provider.Of(broken{})
	for name, call := range map[string]func(context.Context) error{
		"create":       func(ctx context.Context) error { _, err := c.Create(ctx, r); return err },
		"get":          func(ctx context.Context) error { _, err := c.Get(ctx, r); return err },
		"delete":       func(ctx context.Context) error { _, err := c.Delete(ctx, r); return err },
		"validate":     func(ctx context.Context) error { return c.Validate(ctx, r) },
		"add-defaults": func(context.Context) error { _, err := c.AddDefaults(nil); return err },
		"list":         func(ctx context.Context) error { _, err := c.List(ctx, r); return err },
		"get-cloud-config": func(ctx context.Context) error {
			_, err := c.GetCloudConfig(ctx, r)
			return err
		},
	} {
		t.Run("is the error of "+name, func(t *testing.T) {
			var logged strings.Builder
			logger := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{})
			err := call(logr.NewContext(t.Context(), logger))
			require.ErrorContains(t, err, "driver broken panicked in "+name+": runtime error: invalid memory address")
			require.Equal(t, provider.Unavailable, provider.ClassOf(err), "whether it has done anything is not known")
			if name != "add-defaults" {
				require.Contains(t, logged.String(), "provider_test.go", "the stack is logged")
			}
		})
	}
}

func TestWhatADriverHasIsFoundOnceAndDecorated(t *testing.T) {
	var seen []provider.Operation
	note := provider.Around(func(ctx context.Context, op provider.Operation, _ *provider.Request, call func(context.Context) error) error {
		seen = append(seen, op)
		return call(ctx)
	})
	least := provider.Of(&scripted{}, note)
	require.Equal(t, "scripted", least.Name)
	require.Nil(t, least.Validate)
	require.Nil(t, least.AddDefaults)
	require.Nil(t, least.List)
	require.Nil(t, least.GetCloudConfig)

	all := provider.Of(&whole{}, note)
	ctx, r := t.Context(), provider.Request{}
	_, _ = all.Create(ctx, r)
	_, _ = all.Get(ctx, r)
	_, _ = all.Delete(ctx, r)
	_ = all.Validate(ctx, r)
	_, _ = all.List(ctx, r)
	_, _ = all.GetCloudConfig(ctx, r)
	_, _ = all.AddDefaults(nil) // no request
	require.Equal(t, []provider.Operation{
		provider.OpCreate, provider.OpGet, provider.OpDelete, provider.OpValidate, provider.OpList, provider.OpGetCloudConfig,
	}, seen)
}

func TestTheFirstDecoratorIsNextToTheDriver(t *testing.T) {
	var order []string
	named := func(name string) provider.Decorator {
		return provider.Around(func(ctx context.Context, _ provider.Operation, _ *provider.Request, call func(context.Context) error) error {
			order = append(order, name)
			return call(ctx)
		})
	}
	_, err := provider.Of(&scripted{}, named("inner"), named("outer")).Get(t.Context(), provider.Request{})
	require.NoError(t, err)
	require.Equal(t, []string{"outer", "inner"}, order)
}

func TestAnInstanceThatDoesNotExistIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		driver scripted
		gone   bool
		fails  bool
	}{
		"it is gone":            {scripted{gone: true}, true, false},
		"it is going":           {scripted{}, false, false},
		"there is none":         {scripted{err: provider.Errorf(provider.NotFound, "404")}, true, false},
		"gone and an error":     {scripted{gone: true, err: errors.New("reset")}, false, true},
		"the answer is unknown": {scripted{err: errors.New("reset")}, false, true},
		"it is refused":         {scripted{err: provider.Errorf(provider.Unauthenticated, "403")}, false, true},
		"refused and gone":      {scripted{gone: true, err: provider.Errorf(provider.Unauthenticated, "403")}, false, true},
	} {
		gone, err := provider.Of(&tc.driver).Delete(t.Context(), provider.Request{})
		require.Equal(t, tc.gone, gone, name)
		require.Equal(t, tc.fails, err != nil, name)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	r := provider.Request{
		Name: "m1", Token: "t1", UserData: []byte("s3cret"), Spec: []byte("s3cret"),
		Credentials: func(context.Context) (provider.Values, error) { return provider.Values{"key": []byte("s3cret")}, nil },
	}
	values, err := r.Credentials.Read(t.Context())
	require.NoError(t, err)
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "request", r, "values", values)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "request", r, "values", values, "pointer", &r)
	funcr.NewJSON(func(text string) { logged.WriteString(text) }, funcr.Options{}).Info("x", "request", r, "values", values)
	stored, err := json.Marshal(map[string]any{"r": r, "v": values})
	require.NoError(t, err)
	for _, text := range []string{
		fmt.Sprint(r, values), fmt.Sprintf("%v %+v %#v %s %q %x %d", r, r, r, r, r, r, r),
		fmt.Sprintf("%+v %#v %s %x", values, values, values, values),
		fmt.Sprintf("%+v", &r), logged.String(), string(stored),
	} {
		require.NotContains(t, text, "s3cret")
		require.NotContains(t, text, "czNjcmV0", "not in base64 either")
		require.NotContains(t, text, "733363726574", "nor in hex")
	}
	require.Contains(t, fmt.Sprint(r), "m1")
	require.Contains(t, fmt.Sprint(values), "key")
}

func TestCredentialsAreThoseOfTheFirstSourceThatHasAny(t *testing.T) {
	none := func(context.Context) (provider.Values, error) {
		return nil, fmt.Errorf("%w: nothing here", provider.ErrNoCredentials)
	}
	broken := func(context.Context) (provider.Values, error) { return nil, errors.New("no connection") }
	one := func(context.Context) (provider.Values, error) { return provider.Values{"a": []byte("1")}, nil }
	two := func(context.Context) (provider.Values, error) { return provider.Values{"a": []byte("2")}, nil }
	values, err := provider.FirstOf(nil, none, one, two).Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, provider.Values{"a": []byte("1")}, values)
	_, err = provider.FirstOf(broken, one).Read(t.Context())
	require.ErrorContains(t, err, "no connection", "another source could be another account's")
	_, err = provider.FirstOf(none).Read(t.Context())
	require.ErrorIs(t, err, provider.ErrNoCredentials)
	_, err = provider.FirstOf().Read(t.Context())
	require.ErrorIs(t, err, provider.ErrNoCredentials)
}

func TestCredentialsComeFromASecretOrTheEnvironment(t *testing.T) {
	secret := func(data map[string][]byte, found bool, err error) provider.Credentials {
		return provider.FromSecret("ns", "cloud", func(context.Context, string, string) (map[string][]byte, bool, error) {
			return data, found, err
		})
	}
	values, err := secret(map[string][]byte{"token": []byte("x")}, true, nil).Read(t.Context())
	require.NoError(t, err)
	require.Len(t, values, 1)
	_, err = secret(nil, false, nil).Read(t.Context())
	require.ErrorIs(t, err, provider.ErrNoCredentials)
	require.ErrorContains(t, err, "ns/cloud")
	_, err = secret(nil, false, errors.New("no connection")).Read(t.Context())
	require.NotErrorIs(t, err, provider.ErrNoCredentials, "what cannot be read may exist")

	names := map[string]string{"id": "CLOUD_ID", "key": "CLOUD_KEY"}
	environment := func(content map[string]string) provider.Credentials {
		return provider.FromEnvironment(names, func(name string) (string, bool) { text, found := content[name]; return text, found })
	}
	values, err = environment(map[string]string{"CLOUD_ID": "i", "CLOUD_KEY": "k"}).Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, provider.Values{"id": []byte("i"), "key": []byte("k")}, values)
	_, err = environment(nil).Read(t.Context())
	require.ErrorIs(t, err, provider.ErrNoCredentials)
	_, err = environment(map[string]string{"CLOUD_ID": "i"}).Read(t.Context())
	require.Equal(t, provider.Unauthenticated, provider.ClassOf(err))
	require.ErrorContains(t, err, "CLOUD_KEY")
}

func TestErrorsHaveAClass(t *testing.T) {
	cause := errors.New("boom")
	require.Equal(t, provider.Class(""), provider.ClassOf(nil))
	require.Equal(t, provider.Unavailable, provider.ClassOf(cause))
	require.Equal(t, provider.Unavailable, provider.ClassOf(&provider.Error{}))
	wrapped := fmt.Errorf("step: %w", provider.Errorf(provider.Exhausted, "quota: %w", cause))
	require.Equal(t, provider.Exhausted, provider.ClassOf(wrapped))
	require.ErrorIs(t, wrapped, cause)
	require.EqualError(t, wrapped, "step: quota: boom")
	require.EqualError(t, &provider.Error{Class: provider.Invalid}, "Invalid")
	require.EqualError(t, provider.Errorf(provider.Invalid, "size: %w", cause), "size: boom")
}

func TestTheWaitAfterAnErrorDependsOnItsClass(t *testing.T) {
	after := func(class provider.Class, retry time.Duration) error {
		return &provider.Error{Class: class, RetryAfter: retry}
	}
	for name, tc := range map[string]struct {
		err      error
		failures int
		spread   float64
		wait     time.Duration
	}{
		"the first":                     {errors.New("reset"), 1, 0, 2 * time.Second},
		"none counts as the first":      {errors.New("reset"), 0, 0, 2 * time.Second},
		"the third":                     {errors.New("reset"), 3, 0, 8 * time.Second},
		"the hundredth":                 {errors.New("reset"), 100, 0, 2 * time.Minute},
		"a spread":                      {errors.New("reset"), 1, .5, 2100 * time.Millisecond},
		"a spread out of range":         {errors.New("reset"), 1, 7, 2200 * time.Millisecond},
		"the provider's word":           {after(provider.RateLimited, 30*time.Second), 1, 0, 30 * time.Second},
		"the provider wants it earlier": {after(provider.Exhausted, time.Second), 2, 0, 2 * time.Minute},
		"an hour":                       {after(provider.RateLimited, time.Hour), 9, 0, time.Hour},
		"invalid":                       {after(provider.Invalid, time.Second), 1, 0, 10 * time.Minute},
		"terminal":                      {after(provider.Terminal, 0), 5, 1, 11 * time.Minute},
		"credentials refused once":      {after(provider.Unauthenticated, 0), 1, 0, 5 * time.Second},
		"wrong credentials":             {after(provider.Unauthenticated, 0), 8, 0, 10 * time.Minute},
		"an unknown class":              {after("Odd", 0), 1, 0, 2 * time.Second},
		"not its turn": {
			&provider.Error{Class: provider.RateLimited, Delayed: true, RetryAfter: 70 * time.Millisecond}, 50, 1, 70 * time.Millisecond,
		},
	} {
		require.Equal(t, tc.wait, provider.DefaultBackoff().After(tc.err, tc.failures, tc.spread), name)
		require.Equal(t, tc.wait, provider.Backoff{provider.Invalid: {}}.After(tc.err, tc.failures, tc.spread), "%s: the defaults", name)
	}
	short := provider.Backoff{provider.Unavailable: {Base: 5 * time.Second}}
	require.Equal(t, 5*time.Second, short.After(after(provider.Unavailable, 0), 3, 0), "a pause without a maximum stays at its base")
}

func TestACallHasADeadline(t *testing.T) {
	driver := &scripted{}
	calls := provider.Of(driver, provider.Timeout(time.Minute))
	_, err := calls.Get(t.Context(), provider.Request{})
	require.NoError(t, err)
	require.True(t, driver.deadline)

	slow := provider.Of(driver, provider.Around(
		func(ctx context.Context, _ provider.Operation, _ *provider.Request, _ func(context.Context) error) error {
			<-ctx.Done()
			return fmt.Errorf("post: %w", ctx.Err())
		}), provider.Timeout(time.Millisecond))
	_, err = slow.Create(t.Context(), provider.Request{})
	require.Equal(t, provider.Unavailable, provider.ClassOf(err))
	require.ErrorContains(t, err, "create: no answer within 1ms")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = slow.Get(ended, provider.Request{})
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, err.Error(), "no answer", "the caller has ended it")
}

func TestAnAnswerIsUsedAgainForAWhile(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	driver := &scripted{instance: provider.Instance{
		ProviderID: "x://1", State: provider.Creating, Addresses: []provider.Address{{Address: "a"}},
	}}
	calls := provider.Of(driver, provider.Cache(provider.CacheOptions{Clock: now}))
	ctx, r := t.Context(), provider.Request{Account: "a", Token: "t"}
	get := func(r provider.Request) int {
		i, err := calls.Get(ctx, r)
		require.True(t, err != nil || i.Addresses[0].Address == "a")
		driver.instance.Addresses = []provider.Address{{Address: "a"}}
		if err == nil {
			i.Addresses[0].Address = "changed by the caller"
		}
		return driver.calls
	}
	_, err := calls.Create(ctx, r)
	require.NoError(t, err)
	require.Equal(t, 2, get(r))
	require.Equal(t, 2, get(r))
	now.SetTime(now.Now().Add(15 * time.Second))
	driver.instance.State = provider.Running
	require.Equal(t, 3, get(r))
	now.SetTime(now.Now().Add(14 * time.Second))
	require.Equal(t, 3, get(r))
	known := r
	known.ProviderID = "x://1"
	require.Equal(t, 3, get(known), "the same instance")
	known.ProviderID = "x://2"
	require.Equal(t, 4, get(known), "another one")
	other := r
	other.Account = "b"
	require.Equal(t, 5, get(other), "of another account")

	_, err = calls.Delete(ctx, r)
	require.NoError(t, err)
	require.Equal(t, 7, get(r), "a deletion drops what is kept")
	require.Equal(t, 7, get(r))
	driver.err = provider.Errorf(provider.NotFound, "404")
	late := provider.Request{Account: "a", Token: "late"}
	require.Equal(t, 8, get(late))
	driver.err = nil
	require.Equal(t, 9, get(late), "an absence is not kept")
	require.Equal(t, 9, get(late))
	now.SetTime(now.Now().Add(time.Second))
	for i := range 100_000 {
		_, _ = calls.Get(ctx, provider.Request{Token: fmt.Sprint(i)})
	}
	require.Equal(t, 100_010, get(late), "what is kept is bounded")
}

func TestCallsAreCountedAndTimed(t *testing.T) {
	m := provider.NewMetrics("scripted")
	driver := &scripted{}
	calls := provider.Of(driver, m.Decorator())
	get := func(err error) {
		driver.err = err
		_, _ = calls.Get(t.Context(), provider.Request{})
	}
	get(nil)
	get(provider.Errorf(provider.NotFound, "404"))
	get(errors.New("reset"))
	get(provider.Errorf("Odd", "418"))
	get(&provider.Error{Delayed: true})
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	require.NoError(t, registry.Register(provider.NewMetrics("other")))
	families, err := registry.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			name := f.GetName()
			for _, label := range series.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = series.GetCounter().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	require.Equal(t, map[string]float64{
		"machine_controller_errors_total scripted get":                    2,
		"machinist_driver_delayed_calls_total scripted get":               1,
		"machinist_driver_call_duration_seconds OK scripted get":          1,
		"machinist_driver_call_duration_seconds NotFound scripted get":    1,
		"machinist_driver_call_duration_seconds Unavailable scripted get": 1,
		"machinist_driver_call_duration_seconds other scripted get":       1,
	}, got)
}
