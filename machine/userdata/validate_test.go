package userdata_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/machine/userdata"
)

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
		if diff := cmp.Diff([]string{
			"Version", "Architecture", "Families", "Cluster.Server", "Cluster.CA", "Cluster.Token", "Cluster.DNS[0]", "Cluster.Domain",
			"Node.Name", `Node.Labels["a"]`, "Node.Taints[0].Key", "Node.Taints[0].Value", "Node.Taints[0].Effect",
			"Node.Addresses[0]", "Kubelet", "Network.Interface", "Network.Addresses[0]", "Network.DNS[0]",
			"Proxy.HTTP", "Proxy.HTTPS", "HostCAs", "Files[0].Path", "Files[0].Mode",
		}, fieldsOf(err)); diff != "" {
			t.Errorf("fields (-want +got):\n%s", diff)
		}
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
		}, "Network.Gateways: need static addresses: without any, DHCP says what the gateway is"},
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
	if diff := cmp.Diff(c.Node.Labels, joined.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestTheZeroSystemIsRefused(t *testing.T) {
	_, err := userdata.Render(userdata.System{}, minimal(t, "v1.36.3"))
	require.EqualError(t, err, "the system has no templates: use Builtin or Load")
	_, err = userdata.Builtin("windows")
	require.EqualError(t, err, `there is no system "windows": take one of `+strings.Join(userdata.Names(), ", ")+`, or Load your own`)
}
