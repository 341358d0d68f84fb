package machine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
)

// MachineClasses makes MachineClasses, of Gardener or of your own, and their Secrets the input of a Driver: pass its methods as
// DriverOptions.RequestOf and DriverOptions.UserData, and set DriverOptions.WithoutBootstrap. A class has a providerSpec and references up
// to two Secrets, whose data are merged; credentialsSecretRef takes precedence. A Machine references its class in
// MachineState.Provider.Class if its layout has such a field, or as its infrastructure object. MachineClasses writes nothing: neither
// finalizers nor defaults. Safe for concurrent use.
type MachineClasses struct {
	// Kind is the kind of the classes. Default: MachineClass of machine.sapcloud.io/v1alpha1, Gardener's.
	Kind schema.GroupVersionKind
	// At is the path of the fields of a class, such as "spec". Empty: at the top, as Gardener's.
	At []string
	// Classes reads MachineClasses in each pass: pass a cache. Required.
	Classes client.Reader
	// Secrets reads the Secrets of a class in each pass: changed credentials end the wait of a Machine that was rejected. Required.
	Secrets client.Reader
	// Token returns a bootstrap token for a Machine, such as JoinTokens.Token, which replaces <<BOOTSTRAP_TOKEN>> in its user data. Nil: user
	// data with that placeholder is an error.
	Token func(context.Context, *Scope) (userdata.Secret, error)
	// Fallback are the credentials for deleting an instance whose class is gone; nil: none.
	Fallback provider.Credentials
}

// userDataKey is the key of the user data in the Secrets of a class.
const userDataKey = "userData"

// machineClass is the content of a MachineClass.
type machineClass struct {
	spec json.RawMessage
	// secrets are the Secrets whose data are merged; a later Secret takes precedence.
	secrets []client.ObjectKey
}

// RequestOf returns the specification of the class of a Machine, with its credentials, and with the Secret that takes precedence as the
// Account. The error has the class provider.Invalid for a MachineClass that cannot be used. An error comes with the Fallback credentials.
func (c MachineClasses) RequestOf(ctx context.Context, m *contract.MachineState) (provider.Request, error) {
	class, err := c.read(ctx, m)
	if err != nil {
		return provider.Request{Credentials: c.Fallback}, err
	}
	r := provider.Request{Spec: class.spec}
	if len(class.secrets) > 0 {
		r.Account = class.secrets[len(class.secrets)-1].String()
		r.Credentials = func(ctx context.Context) (provider.Values, error) {
			data, err := c.data(ctx, class)
			delete(data, userDataKey)
			return data, err
		}
	}
	return r, nil
}

// UserData returns the user data of the class of a Machine. The name of the Machine and its bootstrap token replace <<MACHINE_NAME>> and
// <<BOOTSTRAP_TOKEN>>, also in the URL-encoded form that Ignition uses.
func (c MachineClasses) UserData(ctx context.Context, s *Scope, _ provider.Request) ([]byte, error) {
	m := &s.State
	class, err := c.read(ctx, m)
	if err != nil {
		return nil, err
	}
	data, err := c.data(ctx, class)
	if err != nil {
		return nil, err
	}
	text := data[userDataKey]
	if len(text) == 0 {
		return nil, provider.Errorf(provider.Invalid, "no Secret of %s %s has the key %s", c.kind().Kind, c.Of(m).Name, userDataKey)
	}
	text = replaced(text, "<<MACHINE_NAME>>", m.Key.Name)
	const placeholder = "<<BOOTSTRAP_TOKEN>>"
	if !bytes.Contains(text, []byte(placeholder)) && !bytes.Contains(text, []byte(url.QueryEscape(placeholder))) {
		return text, nil
	}
	if c.Token == nil {
		return nil, errors.New("the user data has " + placeholder + ", and MachineClasses.Token is not set")
	}
	token, err := c.Token(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("user data of Machine %s: %w", m.Key, err)
	}
	return replaced(text, placeholder, token.Reveal()), nil
}

// replaced replaces a placeholder, and its URL-encoded form, with a value.
func replaced(text []byte, placeholder, value string) []byte {
	text = bytes.ReplaceAll(text, []byte(placeholder), []byte(value))
	return bytes.ReplaceAll(text, []byte(url.QueryEscape(placeholder)), []byte(url.QueryEscape(value)))
}

// Of returns the reference to the class of a Machine, and the zero Ref if it references no class of the kind.
func (c MachineClasses) Of(m *contract.MachineState) contract.Ref {
	kind := c.kind()
	if ref := m.Provider.Class; ref.Kind == kind.Kind && ref.Name != "" {
		return ref
	}
	if m.Infrastructure.GroupKind() == kind.GroupKind() {
		return m.Infrastructure
	}
	return contract.Ref{}
}

// kind returns Kind or its default.
func (c MachineClasses) kind() schema.GroupVersionKind {
	if c.Kind.Empty() {
		return schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "MachineClass"}
	}
	return c.Kind
}

// read reads the class of a Machine.
func (c MachineClasses) read(ctx context.Context, m *contract.MachineState) (machineClass, error) {
	kind, ref := c.kind(), c.Of(m)
	if ref.Name == "" {
		named := cmp.Or(m.Provider.Class, m.Infrastructure)
		return machineClass{}, provider.Errorf(provider.Invalid, "Machine %s names the class %q of kind %q: name a %s", m.Key, named.Name,
			named.GroupKind(), kind.GroupKind())
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	key := client.ObjectKey{Namespace: m.Key.Namespace, Name: ref.Name}
	if err := c.Classes.Get(ctx, key, obj); err != nil {
		return machineClass{}, fmt.Errorf("read %s %s: %w", kind.Kind, key, err)
	}
	at := func(fields ...string) []string { return slices.Concat(c.At, fields) }
	spec, _, err := contract.At[json.RawMessage](at("providerSpec")...).Get(obj.Object)
	if err != nil {
		return machineClass{}, provider.Errorf(provider.Invalid, "%s %s: %w", kind.Kind, key, err)
	}
	class := machineClass{spec: spec}
	for _, field := range []string{"secretRef", "credentialsSecretRef"} {
		name, _, err := unstructured.NestedString(obj.Object, at(field, "name")...)
		namespace, _, err2 := unstructured.NestedString(obj.Object, at(field, "namespace")...)
		if err := errors.Join(err, err2); err != nil {
			return machineClass{}, provider.Errorf(provider.Invalid, "%s %s: %w", kind.Kind, key, err)
		}
		if namespace == "" {
			namespace = m.Key.Namespace
		}
		if name != "" {
			class.secrets = append(class.secrets, client.ObjectKey{Namespace: namespace, Name: name})
		}
	}
	return class, nil
}

// data merges the data of the Secrets of a class. A Secret that does not exist is an error that matches provider.ErrNoCredentials: the
// other Secret alone may belong to another account.
func (c MachineClasses) data(ctx context.Context, class machineClass) (provider.Values, error) {
	all := provider.Values{}
	for _, key := range class.secrets {
		secret, err := external.ReadSecret(ctx, c.Secrets, key)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%w: Secret %s does not exist", provider.ErrNoCredentials, key)
		}
		if err != nil {
			return nil, provider.Errorf(provider.Unavailable, "read Secret %s: %w", key, err)
		}
		maps.Copy(all, secret.Data)
	}
	return all, nil
}
