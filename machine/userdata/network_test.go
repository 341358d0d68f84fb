package userdata_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/machine/userdata"
)

// networkOf renders the file that configures the network of a system.
func networkOf(t *testing.T, system string, n userdata.Network) string {
	t.Helper()
	c := minimal(t, "v1.36.3")
	n.Interface, c.Network = "eth0", &n
	doc, err := userdata.Render(builtin(t, system), c)
	require.NoError(t, err)
	files, err := userdata.Files(doc.Bytes())
	require.NoError(t, err)
	for _, f := range files {
		if strings.Contains(f.Path, "/netplan/") || strings.Contains(f.Path, "system-connections") || strings.HasSuffix(f.Path, ".network") {
			return f.Content.Reveal()
		}
	}
	t.Fatalf("%s has no file of its network", system)
	return ""
}

// Each member of a network is absent, or it is set: in pairs with each other one.
func TestAPartlyFilledNetworkIsAValidOne(t *testing.T) {
	for bits := range 16 {
		var n userdata.Network
		if bits&1 > 0 {
			n.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24"), netip.MustParsePrefix("2001:db8::7/64")}
		}
		if bits&2 > 0 && bits&1 > 0 {
			n.Gateways = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
		}
		if bits&4 > 0 {
			n.DNS = []netip.Addr{netip.MustParseAddr("192.0.2.53")}
		}
		if bits&8 > 0 {
			n.MTU = 1400
		}
		text := networkOf(t, userdata.Ubuntu2404, n)
		var tree any
		require.NoError(t, json.Unmarshal([]byte(text), &tree), text)
		require.NotContains(t, text, "null", "a list that is null is no network at all")
		for _, system := range []string{userdata.Flatcar, userdata.RHEL9, userdata.Rocky9} {
			for line := range strings.Lines(networkOf(t, system, n)) {
				require.False(t, strings.HasSuffix(strings.TrimSpace(line), "="), "%s: %q has no value", system, line)
			}
		}
	}
}

func TestAGatewayOutsideOfTheNetworksIsOnTheLink(t *testing.T) {
	tests := map[string]struct{ gateway, ubuntu, flatcar, rhel string }{
		"inside": {"192.0.2.1", `"via": "192.0.2.1", "on-link": false`, "\nGateway=192.0.2.1\n", "\ngateway=192.0.2.1\n"},
		"outside": {"198.51.100.1", `"via": "198.51.100.1", "on-link": true`, "\n[Route]\nGateway=198.51.100.1\nGatewayOnLink=yes\n",
			"\nroute1=0.0.0.0/0,198.51.100.1\nroute1_options=onlink=true\n"},
		"outside, of IPv6": {"2001:db8:f::1", `"via": "2001:db8:f::1", "on-link": true`, "\n[Route]\nGateway=2001:db8:f::1\nGatewayOnLink=yes\n",
			"\nroute1=::/0,2001:db8:f::1\nroute1_options=onlink=true\n"},
		"of the link itself": {"fe80::1", `"via": "fe80::1", "on-link": false`, "\nGateway=fe80::1\n", "\ngateway=fe80::1\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := userdata.Network{
				Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24"), netip.MustParsePrefix("2001:db8::7/64")},
				Gateways:  []netip.Addr{netip.MustParseAddr(test.gateway)},
			}
			for system, want := range map[string]string{
				userdata.Ubuntu2404: test.ubuntu, userdata.Flatcar: test.flatcar, userdata.RHEL9: test.rhel, userdata.Rocky9: test.rhel,
			} {
				got := networkOf(t, system, n)
				require.Contains(t, got, want, system)
				require.Equal(t, 1, strings.Count(got, test.gateway), "%s: %s", system, got)
			}
		})
	}
}
