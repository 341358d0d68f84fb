package userdata_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			want: "network: the name of the interface is missing"},
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

func TestAllMistakesAreReportedAtOnceWithoutTheValues(t *testing.T) {
	const hostile = "s3cr3t\"'$(reboot)`{{.}}\n"
	c := userdata.Config{
		Version: hostile, Architecture: hostile, Families: hostile,
		Cluster: userdata.Cluster{Server: "http://" + hostile, CA: hostile, Token: userdata.NewSecret(hostile),
			DNS: []netip.Addr{{}}, Domain: hostile},
		Node: userdata.Node{Name: hostile, Labels: map[string]string{"a": hostile},
			Taints: []corev1.Taint{{Key: hostile, Value: hostile, Effect: hostile}}, Addresses: []netip.Addr{{}}},
		Kubelet: json.RawMessage(hostile),
		Network: &userdata.Network{Addresses: []netip.Prefix{{}}, DNS: []netip.Addr{{}}},
		Proxy:   userdata.Proxy{HTTP: userdata.NewSecret(hostile), HTTPS: userdata.NewSecret("ftp://" + hostile)},
		HostCAs: hostile, Files: []userdata.File{{Path: hostile, Mode: 1 << 31}},
	}
	for _, name := range userdata.Names() {
		_, err := userdata.Render(builtin(t, name), c)
		require.Empty(t, cmp.Diff([]string{
			"Version", "Architecture", "Families", "Cluster.Server", "Cluster.CA", "Cluster.Token", "Cluster.DNS[0]", "Cluster.Domain",
			"Node.Name", `Node.Labels["a"]`, "Node.Taints[0].Key", "Node.Taints[0].Value", "Node.Taints[0].Effect",
			"Node.Addresses[0]", "Kubelet", "Network.Interface", "Network.Addresses[0]", "Network.DNS[0]",
			"Proxy.HTTP", "Proxy.HTTPS", "HostCAs", "Files[0].Path", "Files[0].Mode",
		}, fieldsOf(err)))
		require.NotContains(t, err.Error(), "s3cr3t")
	}
}

// fieldsOf lists the fields that an error names, one in each line.
func fieldsOf(err error) []string {
	var fields []string
	for line := range strings.Lines(err.Error()) {
		field, _, _ := strings.Cut(line, ": ")
		fields = append(fields, field)
	}
	return fields
}

func TestWhatAKubeletOrACloudWouldRefuseLaterIsRefusedNow(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*userdata.Config)
		want   string
	}{
		"a version without a patch": {func(c *userdata.Config) { c.Version = "v1.36" },
			"Version: must be a version with a patch, such as v1.36.3"},
		"a version without templates": {func(c *userdata.Config) { c.Version = "v1.30.1" },
			"Version: ubuntu-24.04 has templates for v1.35 and v1.36 only"},
		"a label of the control plane": {func(c *userdata.Config) { c.Node.Labels = map[string]string{"node-role.kubernetes.io/worker": ""} },
			`Node.Labels["node-role.kubernetes.io/worker"]: a kubelet must not give this label to its own Node: propagate it from the Machine`},
		"a taint twice": {func(c *userdata.Config) {
			c.Node.Taints = []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Value: "b", Effect: "NoSchedule"}}
		}, "Node.Taints[1]: is there twice, by key and effect"},
		"taints among the overrides": {func(c *userdata.Config) { c.Kubelet = json.RawMessage(`{"registerWithTaints": [], "clusterDNS": []}`) },
			"Kubelet.clusterDNS: cannot be set here: use Cluster.DNS\nKubelet.registerWithTaints: cannot be set here: use Node.Taints"},
		"overrides that are null": {func(c *userdata.Config) { c.Kubelet = json.RawMessage(`null`) }, "Kubelet: must be a JSON object"},
		"an address of another family": {func(c *userdata.Config) { c.Node.Addresses = []netip.Addr{netip.MustParseAddr("2001:db8::1")} },
			"Node.Addresses[0]: must be of a family of Families"},
		"a private key beside a certificate": {func(c *userdata.Config) {
			c.Cluster.CA += "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
		}, "Cluster.CA: has a PEM block of another type than CERTIFICATE"},
		"a gateway beside DHCP": {func(c *userdata.Config) {
			c.Network = &userdata.Network{Interface: "eth0", Gateways: []netip.Addr{netip.MustParseAddr("192.0.2.254")}}
		}, "Network.Gateways: need static addresses: without any, DHCP sets the gateway"},
		"two files at one path": {func(c *userdata.Config) { c.Files = []userdata.File{{Path: "/a"}, {Path: "/a"}} },
			"Files[1].Path: is there twice"},
		"a path out of its folder": {func(c *userdata.Config) { c.Files = []userdata.File{{Path: "/a/../etc/passwd"}} },
			"Files[0].Path: must be a clean absolute path of printable ASCII without spaces"},
		"a server with credentials": {func(c *userdata.Config) { c.Cluster.Server = "https://user:s3cr3t@192.0.2.1" },
			"Cluster.Server: must be a URL that begins with https://, such as https://192.0.2.1:6443"},
	} {
		t.Run(name, func(t *testing.T) {
			c := minimal(t, "v1.36.3")
			tc.change(&c)
			_, err := userdata.Render(builtin(t, userdata.Ubuntu2404), c)
			require.EqualError(t, err, tc.want)
		})
	}
}

func TestLabelsThatAKubeletMayAddAreAccepted(t *testing.T) {
	c := minimal(t, "v1.36.3")
	c.Node.Labels = map[string]string{"example.com/a": "", "plain": "x", "node.kubernetes.io/pool": "a", "kubelet.kubernetes.io/b": "b",
		"a.node.kubernetes.io/c": "c", "topology.kubernetes.io/zone": "z", "node.cluster.x-k8s.io/d": "d", "notkubernetes.io/e": "e"}
	doc, err := userdata.Render(builtin(t, userdata.Ubuntu2404), c)
	require.NoError(t, err)
	joined, err := userdata.Parse(doc.Bytes())
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(c.Node.Labels, joined.Labels), "labels")
}

func TestTheZeroSystemIsRefused(t *testing.T) {
	_, err := userdata.Render(userdata.System{}, minimal(t, "v1.36.3"))
	require.EqualError(t, err, "the system has no templates: use Builtin or Load")
	_, err = userdata.Builtin("windows")
	require.EqualError(t, err, `there is no system "windows": take one of `+strings.Join(userdata.Names(), ", ")+`, or Load your own`)
}
