package machine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
)

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
