package machine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/instance"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
)

// classGVK is the kind of Gardener's MachineClasses.
func classGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "MachineClass"}
}

// classStore has a MachineClass with two Secrets.
func classStore(t *testing.T) *fake.Store {
	t.Helper()
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: classGVK()}}})
	createClass(t, store)
	return store
}

// createClass creates a MachineClass with two Secrets.
func createClass(t *testing.T, store *fake.Store) {
	t.Helper()
	class := &unstructured.Unstructured{Object: map[string]any{
		"providerSpec": map[string]any{"size": "large"}, "provider": "fake",
		"secretRef":            map[string]any{"name": "pool", "namespace": "default"},
		"credentialsSecretRef": map[string]any{"name": "cloud"},
	}}
	class.SetGroupVersionKind(classGVK())
	class.SetNamespace("default")
	class.SetName("small")
	require.NoError(t, store.Client().Create(t.Context(), class))
	for name, data := range map[string]map[string][]byte{
		"pool":  {"userData": []byte("join <<BOOTSTRAP_TOKEN>> as %3C%3CMACHINE_NAME%3E%3E"), "token": []byte("old")},
		"cloud": {"token": []byte("right")},
	} {
		secret := &corev1.Secret{Data: data}
		secret.Namespace, secret.Name = "default", name
		require.NoError(t, store.Client().Create(t.Context(), secret))
	}
}

func ofClass(name string) *contract.MachineState {
	m := &contract.MachineState{}
	m.Key = types.NamespacedName{Namespace: "default", Name: "m 1"}
	m.Provider.Class = contract.Ref{Group: "machine.sapcloud.io", Kind: "MachineClass", Name: name}
	return m
}

func scopeOf(m *contract.MachineState) *machine.Scope {
	s := &machine.Scope{}
	s.State = *m
	return s
}

func tokenOf(token string, err error) func(context.Context, *machine.Scope) (userdata.Secret, error) {
	return func(context.Context, *machine.Scope) (userdata.Secret, error) { return userdata.NewSecret(token), err }
}

func TestAMachineClassAndItsSecretsAreTheInputOfADriver(t *testing.T) {
	t.Parallel()
	store := classStore(t)
	classes := machine.MachineClasses{Classes: store.Client(), Secrets: store.Client(), Token: tokenOf("abc.def", nil)}
	r, err := classes.RequestOf(t.Context(), ofClass("small"))
	require.NoError(t, err)
	require.JSONEq(t, `{"size":"large"}`, string(r.Spec))
	require.Equal(t, "default/cloud", r.Account)
	values, err := r.Credentials.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, provider.Values{"token": []byte("right")}, values, "the user data is no credential")
	data, err := classes.UserData(t.Context(), scopeOf(ofClass("small")), provider.Request{})
	require.NoError(t, err)
	require.Equal(t, "join abc.def as m+1", string(data))

	_, err = provider.Of(fake.NewDriver(fake.DriverOptions{Token: "right"})).Create(t.Context(), r)
	require.NoError(t, err)
}

func TestAMachineNamesAClassOfYourOwnAsItsInfrastructureObject(t *testing.T) {
	t.Parallel()
	own := schema.GroupVersionKind{Group: "example.dev", Version: "v1", Kind: "Flavor"}
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: own}}})
	class := testenv.Object(own, "small")
	class.Object["spec"] = map[string]any{
		"providerSpec": map[string]any{"size": "large"}, "credentialsSecretRef": map[string]any{"name": "cloud"},
	}
	require.NoError(t, store.Client().Create(t.Context(), class))
	classes := machine.MachineClasses{Kind: own, At: []string{"spec"}, Classes: store.Client(), Secrets: store.Client()}
	m := &contract.MachineState{}
	m.Key = types.NamespacedName{Namespace: "default", Name: "m1"}
	m.Infrastructure = contract.Ref{Group: "example.dev", Kind: "Flavor", Name: "small"}
	require.Equal(t, m.Infrastructure, classes.Of(m))
	r, err := classes.RequestOf(t.Context(), m)
	require.NoError(t, err)
	require.JSONEq(t, `{"size":"large"}`, string(r.Spec))
	require.Equal(t, "default/cloud", r.Account)

	m.Infrastructure.Group = "other.dev"
	require.Zero(t, classes.Of(m))
	_, err = classes.RequestOf(t.Context(), m)
	require.ErrorContains(t, err, `Machine default/m1 names the class "small" of kind "Flavor.other.dev": name a Flavor.example.dev`)
	require.Equal(t, provider.Invalid, provider.ClassOf(err))
	_, err = classes.RequestOf(t.Context(), &contract.MachineState{Metadata: m.Metadata})
	require.ErrorContains(t, err, `names the class "" of kind ""`)
}

func TestAMachineClassThatCannotBeUsedSaysWhy(t *testing.T) {
	t.Parallel()
	store := classStore(t)
	fallback := func(context.Context) (provider.Values, error) { return provider.Values{"token": []byte("mine")}, nil }
	classes := machine.MachineClasses{Classes: store.Client(), Secrets: store.Client(), Fallback: fallback}
	_, err := classes.UserData(t.Context(), scopeOf(ofClass("small")), provider.Request{})
	require.ErrorContains(t, err, "MachineClasses.Token is not set")
	classes.Token = tokenOf("", errors.New("no connection"))
	_, err = classes.UserData(t.Context(), scopeOf(ofClass("small")), provider.Request{})
	require.ErrorContains(t, err, "user data of Machine default/m 1: no connection")

	r, err := classes.RequestOf(t.Context(), ofClass("gone"))
	require.ErrorContains(t, err, "read MachineClass default/gone")
	require.Equal(t, provider.Unavailable, provider.ClassOf(err), "it may come back")
	values, err := r.Credentials.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, provider.Values{"token": []byte("mine")}, values, "a deletion needs no class")
	_, err = classes.RequestOf(t.Context(), ofClass(""))
	require.Equal(t, provider.Invalid, provider.ClassOf(err))

	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = "default", "cloud"
	require.NoError(t, store.Client().Delete(t.Context(), secret))
	r, err = classes.RequestOf(t.Context(), ofClass("small"))
	require.NoError(t, err, "Secrets are read when they are needed")
	_, err = r.Credentials.Read(t.Context())
	require.ErrorIs(t, err, provider.ErrNoCredentials)
	_, err = classes.UserData(t.Context(), scopeOf(ofClass("small")), provider.Request{})
	require.ErrorIs(t, err, provider.ErrNoCredentials)
}

// The Machine of Gardener lives with its class, waits while its class is gone, and needs none to go.
func TestAMachineOfGardenerLivesWithItsClass(t *testing.T) {
	cloud := fake.NewDriver(fake.DriverOptions{Token: "right"})
	var classes machine.MachineClasses
	steps := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls: provider.Of(cloud), Backoff: quickBackoff(), Poll: 10 * time.Millisecond, WithoutBootstrap: true,
		RequestOf: func(ctx context.Context, m *contract.MachineState) (provider.Request, error) { //nolint:gocritic // classes come later
			return classes.RequestOf(ctx, m)
		},
		UserData: func(ctx context.Context, s *machine.Scope, r provider.Request) ([]byte, error) { //nolint:gocritic // classes come later
			return classes.UserData(ctx, s, r)
		},
	})
	steps = steps.Remove(machine.StepBootstrap)
	s := shapes()["Gardener"]
	w := newWorld(t, worldOptions{
		kind: s.kind, noCRDs: true, machine: machine.Options{Steps: steps},
		store: fake.Options{Kinds: []fake.ServedKind{{GVK: classGVK()}}},
		before: func(w *world) {
			classes = machine.MachineClasses{
				Classes: w.client, Secrets: w.client,
				Token:    tokenOf("abc.def", nil),
				Fallback: func(context.Context) (provider.Values, error) { return provider.Values{"token": []byte("right")}, nil },
			}
		},
	})
	m := testenv.Object(s.kind.GVK, "m1")
	m.Object["spec"] = s.spec
	w.Create(m)
	w.says(s.kind, m, contract.ConditionInfrastructureReady, instance.ReasonNoInput)
	require.Zero(t, cloud.Calls(provider.OpCreate), "its class is missing")

	createClass(t, w.Store)
	var id string
	w.Eventually("a provider ID", func() string {
		id, _, _ = unstructured.NestedString(w.Get(m).Object, "spec", "providerID")
		if id == "" {
			return "none yet: " + describe(w.Get(m))
		}
		return ""
	})
	require.Equal(t, "join abc.def as m1", cloud.UserData(string(m.GetUID())))
	w.Create(fake.Node("m1", id))
	w.says(s.kind, m, contract.ConditionReady, contract.ReasonReady)

	class := testenv.Object(classGVK(), "small")
	w.Delete(class)
	w.Remove(m)
	left, err := cloud.List(t.Context(), provider.Request{Credentials: classes.Fallback})
	require.NoError(t, err)
	require.Empty(t, left)
}

// containing is a Machine that contains its operating system.
func containing(value string) *contract.MachineState {
	m := &contract.MachineState{}
	m.Key.Namespace, m.Key.Name, m.Version = "default", "m1", "1.35.2"
	m.Provider.Spec = []byte(value)
	return m
}

// fileOf is the content of a file of a document, empty without.
func fileOf(t *testing.T, document []byte, path string) string {
	t.Helper()
	files, err := userdata.Files(document)
	require.NoError(t, err)
	for _, f := range files {
		if f.Path == path {
			return f.Content.Reveal()
		}
	}
	return ""
}

func TestFirstBootOfAMachineThatContainsItsSystem(t *testing.T) {
	t.Parallel()
	const cloudFile = "/etc/kubernetes/cloud-config"
	specs := machine.ProviderSpecs{
		Config: configOf(t), Token: tokenOf("abcdef.0123456789abcdef", nil),
		CloudConfig: func(_ context.Context, r provider.Request) (userdata.File, error) {
			return userdata.File{Path: cloudFile, Content: userdata.NewSecret("of the driver, for " + r.Name)}, nil
		},
		Credentials: func(m *contract.MachineState) (string, provider.Credentials) { return m.Key.Namespace + "/cloud", nil },
	}
	t.Run("has the version, the token and the file of the cloud", func(t *testing.T) {
		t.Parallel()
		m := containing(`{"operatingSystem": "flatcar", "cloudProviderSpec": {"size": "large"}}`)
		r, err := specs.RequestOf(t.Context(), m)
		require.NoError(t, err)
		require.JSONEq(t, `{"size": "large"}`, string(r.Spec))
		require.Equal(t, "flatcar", r.OperatingSystem)
		require.Equal(t, "default/cloud", r.Account)
		data, err := specs.UserData(t.Context(), scopeOf(m), provider.Request{Name: "vm-1"})
		require.NoError(t, err)
		require.Equal(t, "of the driver, for vm-1", fileOf(t, data, cloudFile))
		require.Contains(t, fileOf(t, data, "/opt/machinist/boot.env"), `KUBERNETES_VERSION="v1.35.2"`)
		joined, err := userdata.Parse(data)
		require.NoError(t, err)
		require.Equal(t, "m1", joined.NodeName)
		require.Contains(t, joined.Kubeconfig.Reveal(), "abcdef.0123456789abcdef")
	})
	t.Run("prefers the file of the cloud that the Machine contains", func(t *testing.T) {
		t.Parallel()
		m := containing(`{"operatingSystem": "ubuntu", "overwriteCloudConfig": "mine"}`)
		data, err := specs.UserData(t.Context(), scopeOf(m), provider.Request{})
		require.NoError(t, err)
		require.Equal(t, "mine", fileOf(t, data, cloudFile))
	})
	t.Run("fails with what could not be made", func(t *testing.T) {
		t.Parallel()
		broken := specs
		broken.Token = tokenOf("", errors.New("no connection"))
		m := containing(`{"operatingSystem": "ubuntu"}`)
		_, err := broken.UserData(t.Context(), scopeOf(m), provider.Request{})
		require.ErrorContains(t, err, "no connection")
		broken.CloudConfig = func(context.Context, provider.Request) (userdata.File, error) {
			return userdata.File{}, errors.New("no region")
		}
		_, err = broken.UserData(t.Context(), scopeOf(m), provider.Request{})
		require.ErrorContains(t, err, "file of the cloud: no region")
		_, err = specs.RequestOf(t.Context(), containing(`{"operatingSystem": "amzn2"}`))
		require.ErrorContains(t, err, `there is no system "amzn2"`)
		require.Equal(t, provider.Invalid, provider.ClassOf(err))
		old := containing(`{"operatingSystem": "ubuntu"}`)
		old.Version = "1.20.1"
		_, err = specs.UserData(t.Context(), scopeOf(old), provider.Request{})
		require.ErrorContains(t, err, "Version: ubuntu-24.04 has templates for")
	})
	t.Run("refuses a specification before anything is made, and not for an instance that exists", func(t *testing.T) {
		t.Parallel()
		m := containing(`{"operatingSystem": "ubuntu", "cloudProviderSpec": {"size": "small"}, "caPublicKey": "x"}`)
		_, err := specs.RequestOf(t.Context(), m)
		require.ErrorContains(t, err, `Machine default/m1: spec.providerSpec.value: unknown field "caPublicKey"`)
		require.Equal(t, provider.Invalid, provider.ClassOf(err))
		m.ProviderID = "x://1"
		r, err := specs.RequestOf(t.Context(), m)
		require.NoError(t, err)
		require.JSONEq(t, `{"size": "small"}`, string(r.Spec))
		m.ProviderID, m.Provider.Class = "", contract.Ref{Name: "small"}
		_, err = specs.RequestOf(t.Context(), m)
		require.ErrorContains(t, err, "valueFrom is not supported")
	})
}

func TestBootstrapDataOfAMachine(t *testing.T) {
	t.Parallel()
	store := fake.NewStore(fake.Options{})
	m := containing(`{}`)
	m.DataSecretName = contract.Some("data")
	read := func() (string, error) {
		data, err := machine.BootstrapData(store.Client())(t.Context(), scopeOf(m), provider.Request{})
		return string(data), err
	}
	_, err := read()
	require.ErrorContains(t, err, "the Secret default/data does not exist, and the Machine names it")
	secret := &corev1.Secret{Data: map[string][]byte{"data": []byte("hello")}}
	secret.Namespace, secret.Name = "default", "data"
	require.NoError(t, store.Client().Create(t.Context(), secret))
	_, err = read()
	require.ErrorContains(t, err, "the Secret default/data has no key value")
	secret.Data = map[string][]byte{"value": []byte("hello")}
	require.NoError(t, store.Client().Update(t.Context(), secret))
	data, err := read()
	require.NoError(t, err)
	require.Equal(t, "hello", data)
}
