package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestARotatedKubeconfigIsUsedWithoutADisconnection(t *testing.T) {
	w, before, after := newWorld(t, Options[*nodes]{}), newAPIServer(t), newAPIServer(t)
	before.put("n1")
	after.put("n1")
	w.reach(keyA, before)
	old := w.connected(keyA)
	w.eventually("the watch runs", func() bool { return before.pending("WATCH") == 1 })
	w.rest()

	t.Log("the new address does not answer yet")
	after.hang()
	w.set(keyA, Target{Config: after.config("t1"), Version: "2"}, nil)
	w.eventually("it is tried", func() bool { return after.pending("GET /readyz") == 1 })
	require.Empty(t, w.get(keyA).Reason, "the old connection goes on")
	require.NoError(t, patchNode(t, old.Cluster.GetClient(), "n1"))
	w.stepUntil(time.Second, "a problem is reported", func() bool { return w.get(keyA).Problem != nil })
	require.Empty(t, w.get(keyA).Reason)

	after.serve()
	w.stepUntil(time.Second, "the new connection is there", func() bool { return w.get(keyA).Value != old.Value })
	w.connected(keyA)
	require.NoError(t, w.get(keyA).Problem)
	w.woken(keyA)
	w.eventually("the old connection has ended", func() bool { return before.pending("WATCH") == 0 })
	require.ErrorIs(t, patchNode(t, old.Cluster.GetClient(), "n1"), ErrNotConnected)
}

func TestAnAccessWithoutNotificationsIsCalledAgainWhenAConnectionIsLost(t *testing.T) {
	s, token := newAPIServer(t), make(chan string, 1)
	s.put("n1")
	current := "t1"
	options := Options[*nodes]{}
	options.Access = AccessFunc(func(_ context.Context, _ types.NamespacedName) (Target, error) {
		select {
		case current = <-token:
		default:
		}
		return Target{Config: s.config(current), Version: current}, nil
	})
	w := newWorld(t, options)
	view := w.connected(keyA)
	s.accept("t2")
	require.Error(t, patchNode(t, view.Cluster.GetClient(), "n1"))
	require.Error(t, w.becomes(keyA, ReasonUnauthorized))
	token <- "t2"
	w.stepUntil(time.Second, "connected with new credentials", func() bool { return w.get(keyA).Reason == "" })
}

func TestAClusterThatGoesIsClosedAtOnce(t *testing.T) {
	w, s, view := reached(t, Options[*nodes]{})
	s.hang()
	done := make(chan error, 1)
	go func() { done <- patchNode(t, view.Cluster.GetClient(), "n1") }()
	w.eventually("a request waits", func() bool { return s.pending("PATCH") == 1 })
	w.rest()

	w.mu.Lock()
	delete(w.targets, keyA)
	w.mu.Unlock()
	w.changed(keyA)
	require.ErrorIs(t, <-done, ErrNotConnected)
	w.woken(keyA)
	w.eventually("nothing is open", func() bool { return s.pending("") == 0 })
	require.ErrorIs(t, w.becomes(keyA, ReasonNoKubeconfig), ErrNoKubeconfig)

	t.Log("another cluster of the same name")
	s.serve()
	w.reach(keyA, s)
	require.NotSame(t, view.Value, w.connected(keyA).Value)
}

func TestAKubeconfigThatIsRefusedIsLookedAtAgainWhenItChanges(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	w.set(keyA, Target{}, fmt.Errorf("%w: user %q has an exec plugin", ErrUnsafeKubeconfig, "u"))
	err := w.becomes(keyA, ReasonKubeconfigRefused)
	require.ErrorIs(t, err, ErrUnsafeKubeconfig)
	w.reach(keyA, s)
	w.connected(keyA)
}

// withCertificate returns a configuration with a client certificate for a name besides the token.
func withCertificate(t *testing.T, config *rest.Config, name string) *rest.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	config = rest.CopyConfig(config)
	config.CertData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	config.KeyData = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return config
}

func TestNewCredentialsKeepTheCacheAndWakeNoMachine(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after func(s *apiServer) *rest.Config
		shown         string
	}{
		"a token": {
			before: func(s *apiServer) *rest.Config { return s.config("t1") },
			after:  func(s *apiServer) *rest.Config { return s.config("t2") }, shown: "t2",
		},
		"a client certificate": {
			before: func(s *apiServer) *rest.Config { return withCertificate(s.t, s.config("t1"), "first") },
			after:  func(s *apiServer) *rest.Config { return withCertificate(s.t, s.config("t1"), "second") }, shown: "t1 second",
		},
		"a client certificate in place of none": {
			before: func(s *apiServer) *rest.Config { return s.config("t1") },
			after:  func(s *apiServer) *rest.Config { return withCertificate(s.t, s.config("t2"), "second") }, shown: "t2 second",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
			s.put("n1")
			w.set(keyA, Target{Config: tc.before(s), Version: "1"}, nil)
			view := w.connected(keyA)
			w.eventually("the watch runs", func() bool { return s.pending("WATCH") == 1 })
			reads := s.count("WATCH") + s.count("GET /api/v1/nodes")
			w.rest()

			after := tc.after(s)
			s.accept("t1", after.BearerToken)
			w.set(keyA, Target{Config: after, Version: "2"}, nil)
			w.eventually("the new credentials are tried", func() bool { return s.credentials("GET /readyz") == tc.shown })
			w.eventually("a request carries them", func() bool {
				_ = patchNode(t, view.Cluster.GetClient(), "n1")
				return s.credentials("PATCH /api/v1/nodes/n1") == tc.shown
			})
			require.NoError(t, patchNode(t, view.Cluster.GetClient(), "n1"))
			require.Same(t, view.Value, w.get(keyA).Value)
			require.True(t, w.get(keyA).Reason == "" && w.get(keyA).Synced)
			require.Equal(t, reads, s.count("WATCH")+s.count("GET /api/v1/nodes"), "no list or watch is started again")
			require.Equal(t, 1, s.pending("WATCH"), "the watch goes on")
			require.Zero(t, w.queue.Len(), "no Machine is woken")
			s.put("n2")
			w.eventually("the cache goes on", func() bool { return view.Value.has(t, "n2") })

			t.Log("credentials that are refused later are noticed, and others heal the connection")
			s.accept("t3")
			require.Error(t, patchNode(t, view.Cluster.GetClient(), "n1"))
			err := w.becomes(keyA, ReasonUnauthorized)
			require.ErrorIs(t, err, errUnauthorized)
			require.ErrorContains(t, err, "renew the credentials in the kubeconfig")
			w.set(keyA, Target{Config: s.config("t3"), Version: "3"}, nil)
			require.NoError(t, patchNode(t, w.connected(keyA).Cluster.GetClient(), "n1"), "the clock stands: there was no pause")
		})
	}
}

func TestNewCredentialsThatAreRefusedDoNotReplaceThoseThatWork(t *testing.T) {
	w, s, view := reached(t, Options[*nodes]{})
	w.set(keyA, Target{Config: s.config("t2"), Version: "2"}, nil)
	w.eventually("a problem", func() bool { return w.get(keyA).Problem != nil })
	require.ErrorIs(t, w.get(keyA).Problem, errUnauthorized)
	require.Empty(t, w.get(keyA).Reason)
	require.NoError(t, patchNode(t, view.Cluster.GetClient(), "n1"))

	s.accept("t2") // they begin to be valid a little late
	w.stepUntil(time.Second, "they are taken up", func() bool { return w.get(keyA).Reason == "" && w.get(keyA).Problem == nil })
	require.NoError(t, patchNode(t, view.Cluster.GetClient(), "n1"))
	require.Same(t, view.Value, w.get(keyA).Value)
}

func TestAConfigurationThatCannotBeComparedIsConnectedAnew(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	s.put("n1")
	plugin := func() *rest.Config {
		config := s.config("t1")
		config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return next }
		return config
	}
	w.set(keyA, Target{Config: plugin(), Version: "1"}, nil)
	view := w.connected(keyA)
	w.set(keyA, Target{Config: plugin(), Version: "2"}, nil)
	w.eventually("there is a new connection", func() bool { return w.get(keyA).Value != view.Value })
}

func TestOnlyOtherCredentialsKeepAConnection(t *testing.T) {
	base := func() *rest.Config {
		return &rest.Config{Host: "https://a.example.com:6443", BearerToken: "t1", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}
	}
	proxied := func(c *rest.Config, proxy string) {
		address, err := url.Parse(proxy)
		require.NoError(t, err)
		c.Proxy = http.ProxyURL(address)
	}
	for name, tc := range map[string]struct {
		before, after func(*rest.Config)
		only          bool
	}{
		"nothing":                {after: func(*rest.Config) {}, only: true},
		"the token":              {after: func(c *rest.Config) { c.BearerToken = "t2" }, only: true},
		"the password":           {after: func(c *rest.Config) { c.Username, c.Password = "u", "p" }, only: true},
		"the certificate":        {after: func(c *rest.Config) { c.CertData, c.KeyData = []byte("c"), []byte("k") }, only: true},
		"what Options replace":   {after: func(c *rest.Config) { c.QPS, c.Burst, c.UserAgent, c.Timeout = 5, 10, "x", 1 }, only: true},
		"the server":             {after: func(c *rest.Config) { c.Host = "https://b.example.com:6443" }},
		"the path of the API":    {after: func(c *rest.Config) { c.Host += "/k8s/clusters/b" }},
		"the authority":          {after: func(c *rest.Config) { c.CAData = []byte("other") }},
		"no verification":        {after: func(c *rest.Config) { c.CAData, c.Insecure = nil, true }},
		"the name of the server": {after: func(c *rest.Config) { c.ServerName = "b" }},
		"a proxy":                {after: func(c *rest.Config) { proxied(c, "http://proxy:3128") }},
		"another proxy": {
			before: func(c *rest.Config) { proxied(c, "http://proxy:3128") }, after: func(c *rest.Config) { proxied(c, "http://other:3128") },
		},
		"the token behind a proxy": {
			before: func(c *rest.Config) { proxied(c, "http://proxy:3128") },
			after: func(c *rest.Config) {
				proxied(c, "http://proxy:3128")
				c.BearerToken = "t2"
			},
		},
		"the impersonated user": {after: func(c *rest.Config) { c.Impersonate.UserName = "another" }},
		"a command":             {after: func(c *rest.Config) { c.ExecProvider = &clientcmdapi.ExecConfig{Command: "x"} }},
		"a plugin":              {after: func(c *rest.Config) { c.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "x"} }},
		"the same command": {
			before: func(c *rest.Config) { c.ExecProvider = &clientcmdapi.ExecConfig{Command: "x"} },
			after:  func(c *rest.Config) { c.ExecProvider = &clientcmdapi.ExecConfig{Command: "x"} },
		},
		"a transport": {after: func(c *rest.Config) { c.Transport = http.DefaultTransport }},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := base(), base()
			if tc.before != nil {
				tc.before(before)
			}
			tc.after(after)
			require.Equal(t, tc.only, onlyCredentials(before, after))
		})
	}
}
