package userdata_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/machine/userdata"
)

func TestATokenReadsOnlyTheDataOfItsMachine(t *testing.T) {
	stages, err := userdata.RenderStages(builtin(t, userdata.RHEL9), minimal(t, "v1.36.3"), worker7)
	require.NoError(t, err)
	meta := metav1.ObjectMeta{Namespace: "first-boot", Name: "worker-7"}
	require.Empty(t, cmp.Diff(&rbacv1.Role{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}, ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"worker-7"},
			Verbs: []string{"get"}}},
	}, stages.Role))
	require.Empty(t, cmp.Diff(&rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}, ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "worker-7"},
		Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "system:bootstrap:abcdef"}},
	}, stages.RoleBinding))
	require.Equal(t, meta, stages.Secret.ObjectMeta)
	require.Equal(t, userdata.SecretType, stages.Secret.Type)
	require.True(t, *stages.Secret.Immutable)
	require.Equal(t, "script", string(stages.Secret.Data["format"]))
}

func TestTheFirstStageTrustsOnlyTheCAAndHidesItsToken(t *testing.T) {
	for _, name := range userdata.Names() {
		c := everything(t, "v1.36.3", userdata.IPv4)
		stages, err := userdata.RenderStages(builtin(t, name), c, worker7)
		require.NoError(t, err)
		files, err := userdata.Files(stages.First.Bytes())
		require.NoError(t, err)
		var withToken []string
		content := map[string]string{}
		for _, f := range files {
			content[f.Path] = f.Content.Reveal()
			if strings.Contains(f.Content.Reveal(), token) {
				require.Equal(t, "-rw-------", f.Mode.String(), f.Path)
				withToken = append(withToken, f.Path)
			}
		}
		require.Equal(t, []string{"/opt/machinist/fetch.header"}, withToken)
		require.Equal(t, c.Cluster.CA, content["/opt/machinist/fetch-ca.crt"])
		require.Equal(t, "FETCH_URL=\"https://192.0.2.1:6443/api/v1/namespaces/first-boot/secrets/worker-7\"\n",
			content["/opt/machinist/fetch.env"])
		require.Contains(t, content["/opt/machinist/fetch.sh"], "--cacert")
		require.NotContains(t, content["/opt/machinist/fetch.sh"], "--insecure")
		require.Contains(t, content, "/opt/machinist/proxy.env", "what is needed to reach the network comes first")
		require.Contains(t, string(stages.First.Bytes()), key, "people can log in also if the second stage fails")
		_, err = userdata.Parse(stages.First.Bytes())
		require.EqualError(t, err, "the document does not join a cluster: it has no file /etc/kubernetes/bootstrap-kubelet.conf")
	}
}

func TestTheSecondStageWritesWhatOneStageWould(t *testing.T) {
	for _, name := range userdata.Names() {
		c := everything(t, "v1.36.3", userdata.DualStack)
		doc, err := userdata.Render(builtin(t, name), c)
		require.NoError(t, err)
		stages, err := userdata.RenderStages(builtin(t, name), c, worker7)
		require.NoError(t, err)
		files, err := userdata.Files(doc.Bytes())
		require.NoError(t, err)
		script := string(stages.Secret.Data["value"])
		for _, f := range files {
			require.Contains(t, script, " '"+f.Path+"' <<'EOF'\n"+base64.StdEncoding.EncodeToString([]byte(f.Content.Reveal()))+"\nEOF\n")
		}
		require.Contains(t, script, "'systemctl' 'enable' '--now' '--no-block' 'machinist-boot.service'\n")
	}
}

func TestAStageNeedsANamespaceAndAName(t *testing.T) {
	_, err := userdata.RenderStages(builtin(t, userdata.Ubuntu2404), minimal(t, "v1.36.3"), types.NamespacedName{Name: "worker-7"})
	require.EqualError(t, err, "key: must be the namespace and the name of a Secret")
}

func TestASecondStageThatNoSecretCanHoldIsRefused(t *testing.T) {
	c := minimal(t, "v1.36.3")
	c.Files = []userdata.File{{Path: "/a", Content: userdata.NewSecret(strings.Repeat("x", corev1.MaxSecretSize))}}
	_, err := userdata.RenderStages(builtin(t, userdata.Flatcar), c, types.NamespacedName{Namespace: "a", Name: "b"})
	require.ErrorContains(t, err, "more than a Secret can have, 1048576")
}

func TestATokenHasAnObject(t *testing.T) {
	expires := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	object, err := userdata.TokenSecret(userdata.NewSecret(token), expires, "Machine default/worker-7", "system:bootstrappers:workers")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
		Type:       "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"),
			"expiration": []byte("2026-01-02T02:04:05Z"), "usage-bootstrap-authentication": []byte("true"),
			"usage-bootstrap-signing": []byte("true"), "description": []byte("Machine default/worker-7"),
			"auth-extra-groups": []byte("system:bootstrappers:workers")},
	}, object))
	_, err = userdata.TokenSecret(userdata.NewSecret("s3cr3t"), expires, "")
	require.EqualError(t, err, "token: must be a bootstrap token: 6 and 16 lower-case letters and digits with a point between")
}

func TestOnlyOurDocumentsAreRead(t *testing.T) {
	for _, text := range []string{"", "s3cr3t", "#cloud-config\nusers: [s3cr3t]\n", "#!/bin/sh\ns3cr3t", "\x1f\x8bs3cr3t",
		`{"ignition": {"version": "2.2.0"}}`,
		"#cloud-config\n" + `{"write_files": [{"path": "/a", "permissions": "s3cr3t"}]}`,
		"#cloud-config\n" + `{"write_files": [{"path": "/a", "permissions": "0600", "encoding": "b64", "content": "s3cr3t"}]}`,
		`{"ignition": {"version": "3.3.0"}, "storage": {"files": [{"path": "/a", "contents": {"source": "data:,s3cr3t"}}]}}`} {
		_, err := userdata.Parse([]byte(text))
		require.EqualError(t, err, "the document is none that Render made")
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range userdata.Names() {
		doc, err := userdata.Render(builtin(f, name), minimal(f, "v1.36.3"))
		require.NoError(f, err)
		f.Add(doc.Bytes())
	}
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, document []byte) {
		joined, err := userdata.Parse(document)
		require.False(t, err != nil && strings.Contains(err.Error(), token) || err == nil && joined.KubeletConfiguration == nil)
	})
}

func TestNoSecretIsPrinted(t *testing.T) {
	c := everything(t, "v1.36.3", userdata.IPv4)
	c.Files[0].Content = userdata.NewSecret(token)
	c.Parameters = map[string]userdata.Secret{"a": userdata.NewSecret(token)}
	system := builtin(t, userdata.Flatcar)
	doc, err := userdata.Render(system, c)
	require.NoError(t, err)
	stages, err := userdata.RenderStages(system, c, types.NamespacedName{Namespace: "a", Name: "b"})
	require.NoError(t, err)
	joined, err := userdata.Parse(doc.Bytes())
	require.NoError(t, err)
	files, err := userdata.Files(doc.Bytes())
	require.NoError(t, err)
	type within struct { // fmt calls no methods of unexported fields
		config userdata.Config
		doc    userdata.Document
		joined userdata.Joined
		files  []userdata.File
	}
	for _, value := range []any{c, &c, c.Cluster, c.Cluster.Token, &c.Cluster.Token, c.Parameters, c.Files, c.Proxy, doc, &doc,
		stages.First, joined, files, within{c, doc, joined, files}, &within{c, doc, joined, files}, map[string]any{"a": c, "b": doc}} {
		texts := []string{}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			texts = append(texts, fmt.Sprintf(verb, value))
		}
		stored, err := json.Marshal(value)
		require.NoError(t, err)
		for _, text := range append(texts, string(stored)) {
			for _, secret := range []string{token, fmt.Sprintf("%x", token), "p%40ss$word", "[97 98 99"} {
				require.NotContains(t, text, secret, "%T is printed with a secret", value)
			}
		}
	}
	require.Equal(t, "REDACTED REDACTED  true", fmt.Sprintf("%v %#v %s %v", c.Cluster.Token, c.Cluster.Token, userdata.Secret{},
		userdata.NewSecret("").IsZero()))
	require.Equal(t, fmt.Sprintf("ignition document of %d bytes", doc.Size()), fmt.Sprintf("%v", doc))
	require.True(t, c.Cluster.Token.Equal(userdata.NewSecret(token)))
	require.False(t, c.Cluster.Token.Equal(userdata.Secret{}))
}

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
