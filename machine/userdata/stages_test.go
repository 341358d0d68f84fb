package userdata_test

import (
	"encoding/base64"
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
	if diff := cmp.Diff(&rbacv1.Role{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}, ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"worker-7"},
			Verbs: []string{"get"}}},
	}, stages.Role); diff != "" {
		t.Errorf("Role (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}, ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "worker-7"},
		Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "system:bootstrap:abcdef"}},
	}, stages.RoleBinding); diff != "" {
		t.Errorf("RoleBinding (-want +got):\n%s", diff)
	}
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
	if diff := cmp.Diff(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
		Type:       "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"),
			"expiration": []byte("2026-01-02T02:04:05Z"), "usage-bootstrap-authentication": []byte("true"),
			"usage-bootstrap-signing": []byte("true"), "description": []byte("Machine default/worker-7"),
			"auth-extra-groups": []byte("system:bootstrappers:workers")},
	}, object); diff != "" {
		t.Errorf("Secret (-want +got):\n%s", diff)
	}
	_, err = userdata.TokenSecret(userdata.NewSecret("s3cr3t"), expires, "")
	require.EqualError(t, err, "token: must be a bootstrap token: 6 and 16 lower-case letters and digits with a point between")
}
