package userdata_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/machine/userdata"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	token = "abcdef.0123456789abcdef"
	key   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPmHdA6HxU1pT4WmNnZ8GT2jYNQ4d5oV8Zb4q0m1kTzd operator@example.com"
)

func ca(t testing.TB) string {
	content, err := os.ReadFile("testdata/ca.pem")
	require.NoError(t, err)
	return string(content)
}

func builtin(t testing.TB, name string) userdata.System {
	system, err := userdata.Builtin(name)
	require.NoError(t, err)
	return system
}

// worker7 names the second stage of a machine.
var worker7 = types.NamespacedName{Namespace: "first-boot", Name: "worker-7"}

// minimal is the least that joins a cluster.
func minimal(t testing.TB, version string) userdata.Config {
	return userdata.Config{
		Version: version,
		Cluster: userdata.Cluster{Server: "https://192.0.2.1:6443", CA: ca(t), Token: userdata.NewSecret(token)},
	}
}

// everything has all that a Config can have.
func everything(t testing.TB, version string, families userdata.Families) userdata.Config {
	c := minimal(t, version)
	c.Families = families
	c.Architecture = userdata.ARM64
	c.Cluster.DNS = addresses(families, "10.96.0.10", "fd00:96::a")
	c.Cluster.ExternalCloudProvider = true
	c.Node = userdata.Node{
		Name: "worker-7", ProviderID: "example://zone-1/i-0123",
		Labels:    map[string]string{"example.com/pool": "green", "topology.kubernetes.io/zone": "zone-1"},
		Taints:    []corev1.Taint{{Key: "example.com/gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
		Addresses: addresses(families, "192.0.2.7", "2001:db8::7"),
	}
	c.Kubelet = json.RawMessage(`{"maxPods": 60, "authentication": {"webhook": {"cacheTTL": "1m0s"}}}`)
	c.Network = &userdata.Network{Interface: "eth0", MTU: 1450, DNS: addresses(families, "192.0.2.53", "2001:db8::53"),
		Gateways: addresses(families, "192.0.2.254", "2001:db8::fe")}
	for _, a := range c.Node.Addresses {
		c.Network.Addresses = append(c.Network.Addresses, netip.PrefixFrom(a, map[bool]int{true: 24, false: 64}[a.Is4()]))
	}
	c.Proxy = userdata.Proxy{HTTP: userdata.NewSecret("http://user:p%40ss$word@proxy.example.com:3128"),
		HTTPS: userdata.NewSecret("http://proxy.example.com:3128"), No: []string{"192.0.2.0/24", ".example.com"}}
	c.SSHKeys = []string{key}
	c.HostCAs, c.Upgrade = ca(t), true
	c.SandboxImage = "registry.example.com/pause:3.10.1"
	c.Files = []userdata.File{{Path: "/etc/motd", Mode: 0o644, Content: userdata.NewSecret("Grüße\n")}}
	return c
}

func addresses(families userdata.Families, four, six string) []netip.Addr {
	switch families {
	case userdata.IPv4:
		return []netip.Addr{netip.MustParseAddr(four)}
	case userdata.IPv6:
		return []netip.Addr{netip.MustParseAddr(six)}
	default:
		return []netip.Addr{netip.MustParseAddr(four), netip.MustParseAddr(six)}
	}
}

// eachConfig calls a function for each combination that is promised.
func eachConfig(t *testing.T, check func(t *testing.T, system userdata.System, c userdata.Config)) {
	for _, name := range userdata.Names() {
		system := builtin(t, name)
		for _, version := range []string{"v1.35.4", "v1.36.3"} {
			for _, families := range []userdata.Families{userdata.IPv4, userdata.IPv6, userdata.DualStack} {
				for _, architecture := range []userdata.Architecture{userdata.AMD64, userdata.ARM64} {
					for kind, c := range map[string]userdata.Config{
						"minimal": minimal(t, version), "everything": everything(t, version, families),
					} {
						c.Families, c.Architecture = families, architecture
						t.Run(fmt.Sprintf("%s %s %s %s %s", name, version, families, architecture, kind), func(t *testing.T) {
							check(t, system, c)
						})
					}
				}
			}
		}
	}
}
