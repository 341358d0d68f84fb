package userdata_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/machine/userdata"
)

func TestEveryDocumentJoinsItsCluster(t *testing.T) {
	eachConfig(t, func(t *testing.T, system userdata.System, c userdata.Config) {
		doc, err := userdata.Render(system, c)
		require.NoError(t, err)
		got, err := userdata.Parse(doc.Bytes())
		require.NoError(t, err)

		want := userdata.Joined{
			NodeName: c.Node.Name, ProviderID: c.Node.ProviderID, Labels: c.Node.Labels,
			Taints: append(append([]corev1.Taint(nil), c.Node.Taints...), userdata.UninitializedTaint()),
		}
		found := userdata.Joined{NodeName: got.NodeName, ProviderID: got.ProviderID, Labels: got.Labels, Taints: got.Taints}
		require.Empty(t, cmp.Diff(want, found), "Node")
		var config struct {
			Clusters []struct {
				Cluster map[string]string `json:"cluster"`
			} `json:"clusters"`
			Users []struct {
				User map[string]string `json:"user"`
			} `json:"users"`
		}
		require.NoError(t, json.Unmarshal([]byte(got.Kubeconfig.Reveal()), &config))
		require.Len(t, config.Clusters, 1)
		require.Len(t, config.Users, 1)
		pinned := map[string]string{"server": c.Cluster.Server,
			"certificate-authority-data": base64.StdEncoding.EncodeToString([]byte(c.Cluster.CA))}
		require.Empty(t, cmp.Diff(pinned, config.Clusters[0].Cluster), "cluster")
		require.Empty(t, cmp.Diff(map[string]string{"token": token}, config.Users[0].User), "user")
	})
}

func TestEveryDocumentIsComplete(t *testing.T) {
	eachConfig(t, func(t *testing.T, system userdata.System, c userdata.Config) {
		doc, err := userdata.Render(system, c)
		require.NoError(t, err)
		files, err := userdata.Files(doc.Bytes())
		require.NoError(t, err)
		content := map[string]string{}
		for _, f := range files {
			text := f.Content.Reveal()
			content[f.Path] = text
			for _, left := range []string{"{{", "<no value>", "%!", "REDACTED"} {
				require.NotContains(t, text, left, f.Path)
			}
			if secret := strings.Contains(text, token) || strings.Contains(text, "word@proxy"); secret && f.Mode != 0o600 {
				t.Errorf("%s has a secret and the mode %04o", f.Path, f.Mode)
			}
		}
		forwarding := map[bool]string{true: "net.ipv6.conf.all.forwarding", false: "net.ipv4.ip_forward"}
		for path, has := range map[string]string{
			"/opt/machinist/boot.sh":                 userdata.SentinelFile,
			"/etc/kubernetes/pki/ca.crt":             c.Cluster.CA,
			"/opt/machinist/boot.env":                "ARCHITECTURE=\"" + string(c.Architecture) + "\"\n",
			"/etc/containerd/config.toml":            "SystemdCgroup = true",
			"/etc/systemd/system/kubelet.service":    "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
			"/etc/sysctl.d/90-machinist.conf":        forwarding[c.Families != userdata.IPv4],
			"/opt/machinist/install.sh":              "install_kubelet",
			"/etc/systemd/system/" + bootUnit:        "/opt/machinist/boot.sh",
			"/etc/kubernetes/bootstrap-kubelet.conf": token,
		} {
			require.Contains(t, content[path], has)
		}
	})
}

const bootUnit = "machinist-boot.service"

func TestEveryDocumentFitsTheSmallestCloud(t *testing.T) {
	smallest := userdata.Budget{Bytes: 16 << 10, Binary: true}
	eachConfig(t, func(t *testing.T, system userdata.System, c userdata.Config) {
		doc, err := userdata.Render(system, c)
		require.NoError(t, err)
		require.LessOrEqual(t, doc.Size(), smallest.Bytes, "%v is over %d bytes, also before it is compressed", doc, smallest.Bytes)
		stages, err := userdata.RenderStages(system, c, worker7)
		require.NoError(t, err)
		if half := smallest.Bytes / 2; stages.First.Size() > half {
			t.Errorf("the first stage, %v, is over %d bytes", stages.First, half)
		}
	})
}

func TestEqualInputGivesEqualBytes(t *testing.T) {
	for _, name := range userdata.Names() {
		c := everything(t, "v1.36.3", userdata.DualStack)
		first, err := userdata.Render(builtin(t, name), c)
		require.NoError(t, err)
		for range 20 {
			again, err := userdata.Render(builtin(t, name), everything(t, "v1.36.3", userdata.DualStack))
			require.NoError(t, err)
			require.True(t, bytes.Equal(first.Bytes(), again.Bytes()), name)
		}
	}
}

func TestTheUninitializedTaintIsThereOnceOrLeftOut(t *testing.T) {
	taint := userdata.UninitializedTaint()
	for name, tc := range map[string]struct {
		node userdata.Node
		want []corev1.Taint
	}{
		"nothing is said":   {want: []corev1.Taint{taint}},
		"it is also listed": {node: userdata.Node{Taints: []corev1.Taint{taint}}, want: []corev1.Taint{taint}},
		"it is left out":    {node: userdata.Node{OmitUninitialized: true}},
		"it is left out, and another is there": {
			node: userdata.Node{OmitUninitialized: true, Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}}},
			want: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := minimal(t, "v1.36.3")
			c.Node = tc.node
			doc, err := userdata.Render(builtin(t, userdata.Rocky9), c)
			require.NoError(t, err)
			joined, err := userdata.Parse(doc.Bytes())
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(tc.want, joined.Taints), "taints")
		})
	}
}

func TestOverridesAreMergedIntoTheKubeletConfiguration(t *testing.T) {
	c := minimal(t, "v1.36.3")
	c.Kubelet = json.RawMessage(`{"serverTLSBootstrap": true, "authentication": {"webhook": {"cacheTTL": "1m0s"}}, "rotateCertificates": null,
		"maxPods": 12345678901234567}`)
	doc, err := userdata.Render(builtin(t, userdata.Ubuntu2404), c)
	require.NoError(t, err)
	joined, err := userdata.Parse(doc.Bytes())
	require.NoError(t, err)
	text := string(joined.KubeletConfiguration)
	var got map[string]any
	require.NoError(t, json.Unmarshal(joined.KubeletConfiguration, &got))
	require.Equal(t, true, got["serverTLSBootstrap"])
	require.NotContains(t, got, "rotateCertificates")
	require.Contains(t, text, "12345678901234567", "large numbers stay what they are")
	require.Empty(t, cmp.Diff(map[string]any{"enabled": true, "cacheTTL": "1m0s"}, got["authentication"].(map[string]any)["webhook"]))
}

func TestAFileTakesThePlaceOfATemplate(t *testing.T) {
	c := minimal(t, "v1.36.3")
	c.Files = []userdata.File{{Path: "/etc/containerd/config.toml", Content: userdata.NewSecret("version = 3\n")}}
	for _, name := range userdata.Names() {
		doc, err := userdata.Render(builtin(t, name), c)
		require.NoError(t, err)
		files, err := userdata.Files(doc.Bytes())
		require.NoError(t, err)
		var found []string
		for _, f := range files {
			if f.Path == "/etc/containerd/config.toml" {
				found = append(found, f.Content.Reveal())
			}
		}
		require.Empty(t, cmp.Diff([]string{"version = 3\n"}, found), name)
	}
}

func TestNodeAddressesOfTwoFamiliesAreFoundWhereNothingElseSetsThem(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*userdata.Config)
		want   string
		args   []string
	}{
		"IPv4": {change: func(*userdata.Config) {}, want: "false"},
		"IPv6": {change: func(c *userdata.Config) { c.Families = userdata.IPv6 }, want: "false", args: []string{"--node-ip=::"}},
		"both": {change: both(func(*userdata.Config) {}), want: "true"},
		"both, with a cloud provider": {change: both(func(c *userdata.Config) { c.Cluster.ExternalCloudProvider = true }), want: "false",
			args: []string{"--cloud-provider=external"}},
		"both, and the addresses are known": {change: both(func(c *userdata.Config) {
			c.Node.Addresses = addresses(userdata.DualStack, "192.0.2.7", "2001:db8::7")
		}), want: "false", args: []string{"--node-ip=192.0.2.7,2001:db8::7"}},
		"both, and one of them is known": {change: both(func(c *userdata.Config) {
			c.Node.Addresses = addresses(userdata.IPv6, "", "2001:db8::7")
		}), want: "false", args: []string{"--node-ip=2001:db8::7"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := minimal(t, "v1.36.3")
			tc.change(&c)
			doc, err := userdata.Render(builtin(t, userdata.Ubuntu2404), c)
			require.NoError(t, err)
			joined, err := userdata.Parse(doc.Bytes())
			require.NoError(t, err)
			require.Contains(t, string(doc.Bytes()), `FIND_NODE_IPS=\"`+tc.want+`\"`)
			require.Len(t, joined.KubeletArgs, len(tc.args))
			if len(tc.args) > 0 {
				require.Equal(t, tc.args, joined.KubeletArgs)
			}
		})
	}
}

func both(change func(*userdata.Config)) func(*userdata.Config) {
	return func(c *userdata.Config) {
		c.Families = userdata.DualStack
		change(c)
	}
}

// A cloud-config of a name with a domain says so: on Ubuntu the host name would be the first label alone.
func TestANodeNameWithADomainIsTheHostName(t *testing.T) {
	const name = "worker-7.example.com"
	for _, system := range userdata.Names() {
		c := minimal(t, "v1.36.3")
		c.Node.Name = name
		doc, joined := joinedOf(t, system, c)
		require.Equal(t, name, joined.NodeName, system)
		if doc.Format() == userdata.CloudConfig {
			require.Contains(t, string(doc.Bytes()), " \"hostname\": \""+name+"\",\n \"prefer_fqdn_over_hostname\": true,\n", system)
			c.Node.Name = "worker-7"
			doc, _ = joinedOf(t, system, c)
			require.NotContains(t, string(doc.Bytes()), "prefer_fqdn", system)
			continue
		}
		files, err := userdata.Files(doc.Bytes())
		require.NoError(t, err)
		require.Equal(t, name, contentOf(files, "/etc/hostname"), system)
	}
}

// joinedOf renders a document, and reads what its machine joins with.
func joinedOf(t *testing.T, system string, c userdata.Config) (userdata.Document, userdata.Joined) {
	t.Helper()
	doc, err := userdata.Render(builtin(t, system), c)
	require.NoError(t, err)
	joined, err := userdata.Parse(doc.Bytes())
	require.NoError(t, err)
	return doc, joined
}

func contentOf(files []userdata.File, path string) string {
	for _, f := range files {
		if f.Path == path {
			return strings.TrimSpace(f.Content.Reveal())
		}
	}
	return ""
}

func TestAProviderIDNeedsNoScheme(t *testing.T) {
	const id = "ocid1.instance.oc1.iad.anuwcljt"
	for _, system := range userdata.Names() {
		c := minimal(t, "v1.36.3")
		c.Node.ProviderID = id
		_, joined := joinedOf(t, system, c)
		require.Equal(t, id, joined.ProviderID, system)
	}
}

// The API server, which also has the second stage, is there by its host alone: with a port, curl would not match it.
func TestTheAPIServerIsReachedWithoutTheProxy(t *testing.T) {
	for server, host := range map[string]string{
		"https://192.0.2.1:6443": "192.0.2.1", "https://[2001:db8::1]:6443": "2001:db8::1", "https://api.example.com": "api.example.com",
	} {
		c := minimal(t, "v1.36.3")
		c.Cluster.Server, c.Cluster.Domain = server, "k8s.example.org"
		c.Proxy = userdata.Proxy{HTTPS: userdata.NewSecret("http://proxy.example.com:3128"), No: []string{"192.0.2.9"}}
		want := `"localhost,127.0.0.1,::1,.svc,.k8s.example.org,` + host + `,192.0.2.9"`
		for _, name := range userdata.Names() {
			stages, err := userdata.RenderStages(builtin(t, name), c, worker7)
			require.NoError(t, err)
			doc, err := userdata.Render(builtin(t, name), c)
			require.NoError(t, err)
			for _, d := range []userdata.Document{doc, stages.First} {
				files, err := userdata.Files(d.Bytes())
				require.NoError(t, err)
				require.Contains(t, contentOf(files, "/opt/machinist/proxy.env"), "NO_PROXY="+want+"\nno_proxy="+want, name)
			}
		}
	}
}
