package cluster

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const token = "c2VjcmV0LXRva2Vu" // must not be in an error

func kubeconfigWith(cluster, user string) string {
	return `apiVersion: v1
kind: Config
current-context: x
contexts:
- name: x
  context: {cluster: c, user: u}
clusters:
- name: c
  cluster: {` + cluster + `}
users:
- name: u
  user: {` + user + `}
`
}

func TestAKubeconfigCanNeitherRunNorReadAnything(t *testing.T) {
	witness := filepath.Join(t.TempDir(), "ran")
	const server = "server: https://example.com:6443"
	tests := map[string]struct {
		kubeconfig string
		want       error
		says       string
	}{
		"an exec plugin": {
			kubeconfigWith(server, `exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: ["`+witness+
				`"], interactiveMode: Never}`), ErrUnsafeKubeconfig, "exec plugin"},
		"an auth provider": {
			kubeconfigWith(server, `auth-provider: {name: oidc, config: {id-token: `+token+`}}`), ErrUnsafeKubeconfig, "auth-provider"},
		"a token from a file":     {kubeconfigWith(server, `tokenFile: /etc/passwd`), ErrUnsafeKubeconfig, `user "u" names files`},
		"a certificate in a file": {kubeconfigWith(server, `client-certificate: /etc/passwd`), ErrUnsafeKubeconfig, `user "u" names files`},
		"a key in a file":         {kubeconfigWith(server, `client-key: relative`), ErrUnsafeKubeconfig, `user "u" names files`},
		"an authority in a file": {
			kubeconfigWith(server+", certificate-authority: /etc/passwd", ``), ErrUnsafeKubeconfig, `cluster "c" names a file`},
		"a plugin of a user that is not the current one": {
			kubeconfigWith(server, `token: `+token) + "- name: other\n  user: {exec: {command: touch}}\n", ErrUnsafeKubeconfig, `"other"`},
		"nothing":      {"", errInvalidKubeconfig, "no current context with a server"},
		"invalid YAML": {"token: " + token + "\n\t- {", errInvalidKubeconfig, "not a kubeconfig in YAML"},
		"no server":    {kubeconfigWith("", `token: `+token), errInvalidKubeconfig, "no current context with a server"},
		"no current context": {
			strings.Replace(kubeconfigWith(server, ""), "current-context: x", "", 1), errInvalidKubeconfig, "no current context with a server"},
		"a missing context": {
			strings.Replace(kubeconfigWith(server, ""), "current-context: x", "current-context: gone", 1), errInvalidKubeconfig, "gone"},
		"a file as server":   {kubeconfigWith("server: file:///etc/passwd", ``), errInvalidKubeconfig, "http or https"},
		"a socket as server": {kubeconfigWith("server: unix:///run/docker.sock", ``), errInvalidKubeconfig, "http or https"},
		"an invalid key": {
			kubeconfigWith(server, "client-certificate-data: "+base64.StdEncoding.EncodeToString([]byte(token))+
				", client-key-data: "+base64.StdEncoding.EncodeToString([]byte(token))), errInvalidKubeconfig, "certificates or key"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config, err := ParseKubeconfig([]byte(tc.kubeconfig))
			require.ErrorIs(t, err, tc.want)
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), token)
			require.Nil(t, config)
		})
	}
	_, err := os.Stat(witness)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAKubeconfigWithDataIsTakenAsItIs(t *testing.T) {
	config, err := ParseKubeconfig([]byte(kubeconfigWith("server: https://example.com:6443/prefix, tls-server-name: inner", "token: "+token)))
	require.NoError(t, err)
	require.Equal(t, "https://example.com:6443/prefix", config.Host)
	require.Equal(t, "inner", config.ServerName)
	require.Equal(t, token, config.BearerToken)
}

func FuzzParseKubeconfig(f *testing.F) {
	f.Add([]byte(kubeconfigWith("server: https://example.com", "token: t")))
	f.Add([]byte(kubeconfigWith("server: https://example.com, proxy-url: 'socks5://x'", "exec: {command: x}")))
	f.Fuzz(func(t *testing.T, in []byte) {
		config, err := ParseKubeconfig(in)
		if err != nil {
			return
		}
		if config.ExecProvider != nil || config.AuthProvider != nil || config.BearerTokenFile != "" ||
			config.CertFile != "" || config.KeyFile != "" || config.CAFile != "" {
			t.Errorf("accepted %q", in)
		}
	})
}
