package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
)

// BootstrapData returns a function for DriverOptions.UserData that reads the data of a bootstrap provider of Cluster API: the key value of
// the Machine's data Secret. Pass a reader of the API server: each Secret is needed once, so a cache of all Secrets would be a waste and a
// risk.
func BootstrapData(secrets client.Reader) func(context.Context, *Scope, provider.Request) ([]byte, error) {
	return func(ctx context.Context, s *Scope, _ provider.Request) ([]byte, error) {
		key := types.NamespacedName{Namespace: s.State.Key.Namespace, Name: s.State.DataSecretName.Or("")}
		return external.ReadBootstrapData(ctx, secrets, key)
	}
}

// ProviderSpecs makes Machines that contain their operating system, as Kubermatic's do in spec.providerSpec.value, the input of a Driver,
// and renders their first-boot data: pass its methods as DriverOptions.RequestOf and DriverOptions.UserData, and set
// DriverOptions.WithoutBootstrap. Safe for concurrent use.
type ProviderSpecs struct {
	// Config returns the settings that a Machine does not contain: the cluster that it joins, the name of the Node if the cloud does not
	// define it, a proxy. Its version is used for a Machine without one. Required.
	Config func(context.Context, *Scope) (userdata.Config, error)
	// Token returns a bootstrap token for a Machine, such as JoinTokens.Token. Nil: Config returns the token.
	Token func(context.Context, *Scope) (userdata.Secret, error)
	// System returns the templates of an operating system by its name, see userdata.ProviderSpec.SystemName. Default userdata.Builtin.
	System func(name string) (userdata.System, error)
	// CloudConfig is GetCloudConfig of the Driver's Calls; nil: machines get no cloud configuration file.
	CloudConfig func(context.Context, provider.Request) (userdata.File, error)
	// Credentials returns the credentials for a Machine, and the Account that they belong to; nil: none.
	Credentials func(*contract.MachineState) (account string, c provider.Credentials)
}

// RequestOf returns the cloudProviderSpec of a Machine, and its operating system. The error has the class provider.Invalid for fields that
// are wrong or unknown, and for a system without templates. The specification of an existing instance is not validated. Problems that
// depend on Config, such as a version without templates, are errors of UserData.
func (p ProviderSpecs) RequestOf(_ context.Context, m *contract.MachineState) (provider.Request, error) {
	spec, err := parseProviderSpec(m)
	r := provider.Request{Spec: spec.CloudProviderSpec, OperatingSystem: spec.OperatingSystem}
	if p.Credentials != nil {
		r.Account, r.Credentials = p.Credentials(m)
	}
	if err == nil {
		_, err = spec.Config(userdata.Config{Network: &userdata.Network{Interface: "any"}}) // UserData uses the embedder's
		_, err2 := p.system(spec)
		err = errors.Join(err, err2)
	}
	if err != nil && m.ProviderID == "" {
		return r, provider.Errorf(provider.Invalid, "Machine %s: %w", m.Key, err)
	}
	return r, nil
}

func parseProviderSpec(m *contract.MachineState) (userdata.ProviderSpec, error) {
	if m.Provider.Class.Name != "" {
		return userdata.ProviderSpec{}, errors.New("spec.providerSpec.valueFrom is not supported: give spec.providerSpec.value")
	}
	return userdata.ParseProviderSpec(m.Provider.Spec)
}

// UserData renders the first-boot data of a Machine.
func (p ProviderSpecs) UserData(ctx context.Context, s *Scope, r provider.Request) ([]byte, error) {
	spec, err := parseProviderSpec(&s.State)
	if err != nil {
		return nil, err
	}
	config, err := p.Config(ctx, s)
	if err != nil {
		return nil, err
	}
	if config, err = spec.Config(config); err != nil {
		return nil, err
	}
	config.Version = "v" + strings.TrimPrefix(cmp.Or(s.State.Version, config.Version), "v")
	file, err := p.cloudConfig(ctx, spec, r)
	if err != nil {
		return nil, err
	}
	if file.Path != "" {
		config.Files = append(slices.Clip(config.Files), file)
	}
	system, err := p.system(spec)
	if err != nil {
		return nil, err
	}
	if p.Token != nil {
		if config.Cluster.Token, err = p.Token(ctx, s); err != nil {
			return nil, err
		}
	}
	doc, err := userdata.Render(system, config)
	return doc.Bytes(), err
}

// system returns the templates for a Machine.
func (p ProviderSpecs) system(spec userdata.ProviderSpec) (userdata.System, error) {
	if p.System != nil {
		return p.System(spec.SystemName())
	}
	return userdata.Builtin(spec.SystemName())
}

// cloudConfigFile is the path of the cloud configuration that a Machine itself contains. The path is Kubermatic's.
const cloudConfigFile = "/etc/kubernetes/cloud-config"

// cloudConfig returns the cloud configuration file: the Machine's takes precedence over the Driver's.
func (p ProviderSpecs) cloudConfig(ctx context.Context, spec userdata.ProviderSpec, r provider.Request) (userdata.File, error) {
	if spec.CloudConfig != nil {
		return userdata.File{Path: cloudConfigFile, Content: *spec.CloudConfig}, nil
	}
	if p.CloudConfig == nil {
		return userdata.File{}, nil
	}
	file, err := p.CloudConfig(ctx, r)
	if err != nil {
		return file, fmt.Errorf("file of the cloud: %w", err)
	}
	return file, nil
}
