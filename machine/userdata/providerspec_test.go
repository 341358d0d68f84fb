package userdata_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machine/userdata"
)

func TestProviderSpec(t *testing.T) {
	t.Parallel()
	base := minimal(t, "v1.36.3")
	base.SSHKeys = []string{"ssh-ed25519 AAAA base"}
	onWire := base
	onWire.Network = &userdata.Network{Interface: "ens3", MTU: 1450}
	for name, tc := range map[string]struct {
		value  string
		base   *userdata.Config
		system string
		want   string // the first lines of the error
		check  func(*testing.T, userdata.Config)
	}{
		"a system and no more": {value: `{"operatingSystem": "ubuntu"}`, system: userdata.Ubuntu2404, check: func(t *testing.T, c userdata.Config) {
			require.Equal(t, base, c)
		}},
		"Kubermatic's names": {value: `{"operatingSystem": "rockylinux"}`, system: userdata.Rocky9},
		"a system of others": {value: `{"operatingSystem": "amzn2"}`, system: "amzn2"},
		"keys, each once": {value: `{"operatingSystem": "rhel", "sshPublicKeys": ["ssh-ed25519 AAAA base\n", "ssh-rsa BBBB new"]}`,
			system: userdata.RHEL9, check: func(t *testing.T, c userdata.Config) {
				require.Equal(t, []string{"ssh-ed25519 AAAA base", "ssh-rsa BBBB new"}, c.SSHKeys)
				require.Equal(t, []string{"ssh-ed25519 AAAA base"}, base.SSHKeys, "what all machines share is not changed")
			}},
		"an upgrade": {value: `{"operatingSystem": "ubuntu", "operatingSystemSpec": {"distUpgradeOnBoot": true}}`, system: userdata.Ubuntu2404,
			check: func(t *testing.T, c userdata.Config) { require.True(t, c.Upgrade) }},
		"Flatcar's settings": {value: `{"operatingSystem": "flatcar", "operatingSystemSpec": {"disableAutoUpdate": true,
			"disableLocksmithD": true, "disableUpdateEngine": false, "provisioningUtility": "ignition"}}`, system: userdata.Flatcar},
		"families alone": {value: `{"operatingSystem": "ubuntu", "network": {"ipFamily": "IPv6+IPv4"}}`, system: userdata.Ubuntu2404,
			check: func(t *testing.T, c userdata.Config) {
				require.Equal(t, userdata.DualStack, c.Families)
				require.Nil(t, c.Network)
			}},
		"an address": {base: &onWire, system: userdata.Ubuntu2404, value: `{"operatingSystem": "ubuntu", "network": {
			"cidr": "192.0.2.7/24", "gateway": "192.0.2.1", "dns": {"servers": ["192.0.2.53"]}}}`,
			check: func(t *testing.T, c userdata.Config) {
				require.Equal(t, "{ens3 [192.0.2.7/24] [192.0.2.1] [192.0.2.53] 1450}", fmt.Sprint(*c.Network))
				require.Empty(t, onWire.Network.Addresses)
			}},
		"an address on no interface": {value: `{"operatingSystem": "ubuntu", "network": {"cidr": "192.0.2.7/24"}}`,
			want: "network: the name of the interface is not known"},
		"addresses that are none": {base: &onWire, value: `{"operatingSystem": "ubuntu", "network": {"cidr": "192.0.2.7", "gateway": "here",
			"dns": {"servers": ["there"]}, "ipFamily": "IPv7"}}`, want: "network.ipFamily: must be IPv4, IPv6, IPv4+IPv6, IPv6+IPv4 or absent\n" +
			"network.cidr: must be an address such as 192.0.2.7/24\nnetwork.gateway: must be an IP address\n" +
			"network.dns.servers: must be IP addresses"},
		"a subscription": {value: `{"operatingSystem": "rhel", "operatingSystemSpec": {"rhelSubscriptionManagerUser": "s3cret"}}`,
			want: `operatingSystemSpec: unknown field "rhelSubscriptionManagerUser": remove it, or boot with templates of your own`},
		"Flatcar with cloud-init": {value: `{"operatingSystem": "flatcar", "operatingSystemSpec": {"provisioningUtility": "cloud-init"}}`,
			want: "operatingSystemSpec.provisioningUtility: must be ignition or absent"},
		"nothing":        {want: "spec.providerSpec.value: must be an object"},
		"no JSON":        {value: `{`, want: "spec.providerSpec.value: is not JSON"},
		"no object":      {value: `"s3cret"`, want: `spec.providerSpec.value: the member "" has a wrong type`},
		"another type":   {value: `{"operatingSystem": 7777}`, want: `spec.providerSpec.value: the member "operatingSystem" has a wrong type`},
		"another member": {value: `{"operatingSystem": "ubuntu", "caPublicKey": "s3cret"}`, want: `unknown field "caPublicKey": remove it`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, err := userdata.ParseProviderSpec(json.RawMessage(tc.value))
			var c userdata.Config
			if from := tc.base; err == nil {
				if from == nil {
					from = &base
				}
				c, err = spec.Config(*from)
			}
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				require.NotContains(t, err.Error(), "s3cret")
				require.NotContains(t, err.Error(), "7777")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.system, spec.SystemName())
			if tc.check != nil {
				tc.check(t, c)
			}
			if tc.system == "amzn2" {
				return
			}
			_, err = userdata.Render(builtin(t, tc.system), c)
			require.NoError(t, err)
		})
	}
}
