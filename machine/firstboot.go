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

// BootstrapData returns a function for DriverOptions.UserData that reads what a bootstrap provider of Cluster API has made for a Machine:
// the key value of the Secret that the Machine names. Pass a reader of the API server: each Secret is needed once, so a cache of all
// Secrets would be a waste and a risk.
func BootstrapData(secrets client.Reader) func(context.Context, *Scope, provider.Request) ([]byte, error) {
	return func(ctx context.Context, s *Scope, _ provider.Request) ([]byte, error) {
		key := types.NamespacedName{Namespace: s.State.Key.Namespace, Name: s.State.DataSecretName.Or("")}
		return external.ReadBootstrapData(ctx, secrets, key)
	}
}

// ProviderSpecs have Machines that contain their operating system, as Kubermatic's do in spec.providerSpec.value, be the input of a Driver,
// and render their first-boot data: pass its methods as DriverOptions.RequestOf and DriverOptions.UserData, and set
// DriverOptions.WithoutBootstrap. Safe for concurrent use.
type ProviderSpecs struct {
	// Config returns what a machine needs that its Machine does not contain: the cluster that it joins, the name of the Node where
	// the cloud does not decide, a proxy. The version is that of the Machine, if it has one. Required.
	Config func(context.Context, *Scope) (userdata.Config, error)
	// Token returns a bootstrap token for a Machine, as JoinTokens do. Nil: Config returns one.
	Token func(context.Context, *Scope) (userdata.Secret, error)
	// System returns the templates of a system by its name, see userdata.ProviderSpec.SystemName. Default userdata.Builtin.
	System func(name string) (userdata.System, error)
	// CloudConfig is GetCloudConfig of the Driver's Calls; nil: machines get no file of the cloud.
	CloudConfig func(context.Context, provider.Request) (userdata.File, error)
	// Credentials returns the credentials for a Machine, and the Account that they belong to; nil: none.
	Credentials func(*contract.MachineState) (account string, c provider.Credentials)
}

// RequestOf returns the cloudProviderSpec of a Machine, and its operating system. The error has the class provider.Invalid for members that
// are wrong or not known, and for a system without templates. The specification of an instance that exists is not judged. What only a
// Config shows, such as a version without templates, is an error of UserData.
func (p ProviderSpecs) RequestOf(_ context.Context, m *contract.MachineState) (provider.Request, error) {
	spec, err := parseProviderSpec(m)
	r := provider.Request{Spec: spec.CloudProviderSpec, OperatingSystem: spec.OperatingSystem}
	if p.Credentials != nil {
		r.Account, r.Credentials = p.Credentials(m)
	}
	if err == nil {
		_, err = spec.Config(userdata.Config{Network: &userdata.Network{Interface: "any"}}) // UserData has that of the embedder
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

// cloudConfigFile is where the file of a cloud is that a Machine itself contains. The path is Kubermatic's.
const cloudConfigFile = "/etc/kubernetes/cloud-config"

// cloudConfig returns the file of the cloud: what the Machine has goes before what the Driver writes.
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
