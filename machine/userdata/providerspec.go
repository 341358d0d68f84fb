package userdata

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ProviderSpec is the content of spec.providerSpec.value of Kubermatic's Machines. ParseProviderSpec returns one.
type ProviderSpec struct {
	// OperatingSystem is Kubermatic's name of the system, such as ubuntu; see SystemName.
	OperatingSystem string
	// CloudProviderSpec is the Driver's specification.
	CloudProviderSpec json.RawMessage
	// CloudConfig replaces the Driver's cloud configuration file; nil if not set.
	CloudConfig *Secret

	sshKeys    []string
	network    *providerNetwork
	systemSpec json.RawMessage
}

// providerNetwork is the member network of a ProviderSpec.
type providerNetwork struct {
	CIDR    string `json:"cidr"`
	Gateway string `json:"gateway"`
	DNS     struct {
		Servers []string `json:"servers"`
	} `json:"dns"`
	IPFamily string `json:"ipFamily"`
}

// ParseProviderSpec reads the content of spec.providerSpec.value. An unknown field is an error, because the machine would boot without its
// effect; the fields that could be read are returned with the error. No error contains a value. Rule: Kubermatic's providerconfig.
func ParseProviderSpec(value json.RawMessage) (ProviderSpec, error) {
	var wire struct {
		CloudProvider     string           `json:"cloudProvider"`
		CloudProviderSpec json.RawMessage  `json:"cloudProviderSpec"`
		OperatingSystem   string           `json:"operatingSystem"`
		SystemSpec        json.RawMessage  `json:"operatingSystemSpec"`
		SSHKeys           []string         `json:"sshPublicKeys"`
		Network           *providerNetwork `json:"network"`
		CloudConfig       *string          `json:"overwriteCloudConfig"`
	}
	err := decodeStrictly("spec.providerSpec.value", value, &wire)
	p := ProviderSpec{OperatingSystem: wire.OperatingSystem, CloudProviderSpec: wire.CloudProviderSpec, sshKeys: wire.SSHKeys,
		network: wire.Network, systemSpec: wire.SystemSpec}
	if wire.CloudConfig != nil {
		content := NewSecret(*wire.CloudConfig)
		p.CloudConfig = &content
	}
	return p, err
}

// decodeStrictly reads all valid fields, and reports unknown fields and fields of another type.
func decodeStrictly(field string, value json.RawMessage, into any) error {
	if len(value) == 0 {
		return fmt.Errorf("%s: must be an object", field)
	}
	var typed *json.UnmarshalTypeError
	switch err := json.Unmarshal(value, into); {
	case errors.As(err, &typed):
		return fmt.Errorf("%s: the member %q has a wrong type", field, typed.Field)
	case err != nil:
		return fmt.Errorf("%s: is not JSON", field)
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: %s: remove it, or boot with templates of your own", field, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// SystemName returns the name of the system for Builtin, or OperatingSystem itself if there is none.
func (p ProviderSpec) SystemName() string {
	known := map[string]string{"ubuntu": Ubuntu2404, "flatcar": Flatcar, "rhel": RHEL9, "rockylinux": Rocky9}
	return cmp.Or(known[p.OperatingSystem], p.OperatingSystem)
}

// systemSpec is operatingSystemSpec of all systems. Flatcar never updates itself, whatever the settings.
type systemSpec struct {
	DistUpgradeOnBoot   bool   `json:"distUpgradeOnBoot"`
	DisableAutoUpdate   bool   `json:"disableAutoUpdate"`
	DisableLocksmithD   bool   `json:"disableLocksmithD"`
	DisableUpdateEngine bool   `json:"disableUpdateEngine"`
	ProvisioningUtility string `json:"provisioningUtility"`
}

// Config returns base with the values of the ProviderSpec: SSH keys, network, and settings of the system. base is not changed. An address,
// a gateway or a name server needs base.Network.Interface. A setting that the built-in templates do not support, such as a subscription of
// RHEL, is an error. The error joins everything that a machine would boot without.
func (p ProviderSpec) Config(base Config) (Config, error) {
	c := base
	c.SSHKeys = slices.Clone(base.SSHKeys)
	for _, key := range p.sshKeys {
		if key = strings.TrimSpace(key); !slices.Contains(c.SSHKeys, key) {
			c.SSHKeys = append(c.SSHKeys, key)
		}
	}
	var system systemSpec
	var err error
	if len(p.systemSpec) > 0 {
		err = decodeStrictly("operatingSystemSpec", p.systemSpec, &system)
	}
	if utility := system.ProvisioningUtility; utility != "" && utility != string(Ignition) {
		err = errors.Join(err, errors.New("operatingSystemSpec.provisioningUtility: must be ignition or absent"))
	}
	c.Upgrade = base.Upgrade || system.DistUpgradeOnBoot
	if p.network != nil {
		err = errors.Join(err, p.network.add(&c))
	}
	return c, err
}

// add adds the network to a Config.
func (n *providerNetwork) add(c *Config) error {
	families := map[string]Families{"": c.Families, "IPv4": IPv4, "IPv6": IPv6, "IPv4+IPv6": DualStack, "IPv6+IPv4": DualStack}
	family, known := families[n.IPFamily]
	var errs []error
	if !known {
		errs = append(errs, errors.New("network.ipFamily: must be IPv4, IPv6, IPv4+IPv6, IPv6+IPv4 or absent"))
	}
	if c.Families = family; n.CIDR == "" && n.Gateway == "" && len(n.DNS.Servers) == 0 {
		return errors.Join(errs...)
	}
	network := Network{}
	if c.Network != nil {
		network = *c.Network
	}
	if network.Interface == "" {
		errs = append(errs, errors.New("network: the name of the interface is missing: set Network.Interface in the Config of all machines"))
	}
	if n.CIDR != "" {
		address, err := netip.ParsePrefix(n.CIDR)
		network.Addresses, errs = []netip.Prefix{address}, append(errs, named("network.cidr", "an address such as 192.0.2.7/24", err))
	}
	if n.Gateway != "" {
		gateway, err := netip.ParseAddr(n.Gateway)
		network.Gateways, errs = []netip.Addr{gateway}, append(errs, named("network.gateway", "an IP address", err))
	}
	if len(n.DNS.Servers) > 0 {
		network.DNS = nil
	}
	for _, text := range n.DNS.Servers {
		server, err := netip.ParseAddr(text)
		network.DNS, errs = append(network.DNS, server), append(errs, named("network.dns.servers", "IP addresses", err))
	}
	c.Network = &network
	return errors.Join(errs...)
}

// named returns an error about a field, or nil without err.
func named(field, want string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: must be %s", field, want)
}
