package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/provider"
)

// createToken creates a Secret with a token, or replaces the token.
func createToken(t *testing.T, store *fake.Store, namespace, name, token string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"token": []byte(token)}}
	places := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	require.NoError(t, client.IgnoreAlreadyExists(store.Client().Create(t.Context(), places)))
	if err := store.Client().Create(t.Context(), secret); apierrors.IsAlreadyExists(err) {
		require.NoError(t, store.Client().Update(t.Context(), secret))
	} else {
		require.NoError(t, err)
	}
}

// cloud is the API server of the driver's Nodes, which accepts some tokens, and nobody without one.
type cloud struct {
	http.RoundTripper

	mu      sync.Mutex
	tokens  []string
	written strings.Builder
}

func (c *cloud) accepts(tokens ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = tokens
}

// RoundTrip keeps what is written.
func (c *cloud) RoundTrip(req *http.Request) (*http.Response, error) {
	token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	c.mu.Lock()
	accepted := slices.Contains(c.tokens, token) || !strings.HasPrefix(req.URL.Path, "/api/v1/nodes")
	_, _ = fmt.Fprintf(&c.written, "%s %s\n", req.URL.Path, body)
	c.mu.Unlock()
	if accepted {
		return c.RoundTripper.RoundTrip(req)
	}
	return &http.Response{
		Status: "401 Unauthorized", StatusCode: http.StatusUnauthorized, Request: req, Header: http.Header{}, Body: http.NoBody,
	}, nil
}

// inCloud returns the calls of the driver with these flags, whose Secrets are in the store, and the cloud.
func inCloud(t *testing.T, store *fake.Store, sources string) (provider.Calls, *cloud) {
	t.Helper()
	o := given(t, "--driver=kwok", "--driver-qps=1000", "--driver-credentials="+sources)
	of := &cloud{tokens: []string{"right"}}
	c, err := o.driverClientBeside(of.config(store), nil)
	require.NoError(t, err)
	return o.driverCalls(c, store.Client(), nil), of
}

// config is that of a manager, whose own credentials the driver must not use.
func (c *cloud) config(store *fake.Store) *rest.Config {
	cfg := store.RESTConfig()
	c.RoundTripper = cfg.Transport
	cfg.Transport, cfg.BearerToken = c, "manager"
	return cfg
}

func instance(name string) provider.Request {
	return provider.Request{Token: "uid-" + name, Name: name, Cluster: "c1"}
}

func nodesOf(t *testing.T, store *fake.Store) int {
	t.Helper()
	var list corev1.NodeList
	require.NoError(t, store.Client().List(t.Context(), &list))
	return len(list.Items)
}

// metadataService answers with what is at a path.
func metadataService(t *testing.T, content map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, found := content[r.URL.Path]
		switch {
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/token", http.StatusFound)
		case !found:
			http.NotFound(w, r)
		default:
			_, _ = io.WriteString(w, text)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestTheDriverHasTheTokenOfTheFirstSource is not parallel, because of the environment.
func TestTheDriverHasTheTokenOfTheFirstSource(t *testing.T) {
	t.Setenv("RIGHT_TOKEN", "right")
	t.Setenv("WRONG_TOKEN", "wrong")
	service := metadataService(t, map[string]string{"/token": "right\n", "/long": strings.Repeat("x", metadataLimit+1)})
	store := fake.NewStore(fake.Options{})
	createToken(t, store, "system", "right", "right\n")
	createToken(t, store, "system", "wrong", "wrong")
	createToken(t, store, "system", "empty", "")
	for sources, want := range map[string]string{
		"secret:system/right":                                                    "",
		"secret:system/right,environment:WRONG_TOKEN":                            "",
		"environment:RIGHT_TOKEN,secret:system/wrong":                            "",
		"metadata:" + service + "/token":                                         "",
		"secret:system/gone,environment:NO_TOKEN,metadata:" + service + "/token": "",
		"metadata:" + service + "/none,environment:RIGHT_TOKEN":                  "",
		"secret:system/wrong,environment:RIGHT_TOKEN": "Unauthenticated list Nodes: the server has asked for the client to provide " +
			"credentials (get nodes): put a token that has the rights into secret:system/wrong,environment:RIGHT_TOKEN",
		"secret:system/empty,environment:RIGHT_TOKEN": "Unauthenticated credentials [token] without a token: put a token that has the rights " +
			"into secret:system/empty",
		"secret:system/gone,environment:NO_TOKEN": "Unauthenticated there are no credentials: put a token that has the rights into " +
			"secret:system/gone,environment:NO_TOKEN",
		"class": "Unauthenticated there are no credentials: put a token that has the rights into the Secret of a MachineClass",
		"metadata:" + service + "/moved,environment:RIGHT_TOKEN": "Unavailable read token from the metadata service: GET " + service +
			"/moved: 302 Found",
		"metadata:" + service + "/long": "Unavailable read token from the metadata service: GET " + service +
			"/long: the answer has more than 65536",
		"metadata:http://127.0.0.1:1/token,environment:RIGHT_TOKEN": "Unavailable read token from the metadata service: " +
			"GET http://127.0.0.1:1/token: dial tcp",
	} {
		calls, _ := inCloud(t, store, sources)
		_, err := calls.Create(t.Context(), instance("m1"))
		if want == "" {
			require.NoError(t, err, sources)
			continue
		}
		got := fmt.Sprint(provider.ClassOf(err), " ", err)
		require.Contains(t, got, want, sources)
		for _, secret := range []string{"wrong ", "wrong\n", "right\n", "xxx"} {
			require.NotContains(t, got, secret)
		}
	}
	require.Equal(t, 1, nodesOf(t, store))
	t.Setenv("WRONG_TOKEN", "right")
	calls, _ := inCloud(t, store, "environment:WRONG_TOKEN")
	_, err := calls.Get(t.Context(), instance("m1"))
	require.NoError(t, err, "read for each call")
}

// TestATokenIsReplacedWhileTheManagerRuns: of each call, on the same client.
func TestATokenIsReplacedWhileTheManagerRuns(t *testing.T) {
	t.Parallel()
	store := fake.NewStore(fake.Options{})
	createToken(t, store, "system", "cloud", "first")
	calls, of := inCloud(t, store, "secret:system/cloud")
	of.accepts("first")
	_, err := calls.Create(t.Context(), instance("m1"))
	require.NoError(t, err)
	of.accepts("second")
	_, err = calls.Create(t.Context(), instance("m2"))
	require.Equal(t, provider.Unauthenticated, provider.ClassOf(err))
	_, err = calls.Get(t.Context(), instance("m1"))
	require.Equal(t, provider.Unauthenticated, provider.ClassOf(err), "not that it is gone")
	_, err = calls.List(t.Context(), instance("m1"))
	require.Equal(t, provider.Unauthenticated, provider.ClassOf(err))
	gone, err := calls.Delete(t.Context(), instance("m1"))
	require.Equal(t, provider.Unauthenticated, provider.ClassOf(err))
	require.False(t, gone)
	createToken(t, store, "system", "cloud", "second")
	for range 2 {
		for _, name := range []string{"m1", "m2"} {
			_, err = calls.Create(t.Context(), instance(name))
			require.NoError(t, err)
		}
	}
	require.Equal(t, 2, nodesOf(t, store))
	gone, err = calls.Delete(t.Context(), instance("m1"))
	require.NoError(t, err)
	require.True(t, gone)
}

// TestAMachineSaysThatItsTokenIsRefused replaces the token of a manager at work: nothing is lost, made twice, or waits for ever.
func TestAMachineSaysThatItsTokenIsRefused(t *testing.T) {
	t.Parallel()
	store := fake.NewStore(fake.Options{})
	create(t, store.Client(), api.CRDs())
	createToken(t, store, "system", "cloud", "first-s3cret")
	createToken(t, store, "default", "of-class", "class-s3cret")
	create(t, store.Client(), `
apiVersion: machinist.dev/v1beta2
kind: MachineClass
metadata: {name: own, namespace: default}
spec: {providerSpec: {cpu: "2"}, credentialsSecretRef: {name: of-class}}
`)
	var mu sync.Mutex
	var logged strings.Builder
	log := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintln(&logged, prefix, args)
	}, funcr.Options{Verbosity: 10})
	scheme, err := newScheme(api.Machinist)
	require.NoError(t, err)
	of := &cloud{tokens: []string{"manager", "first-s3cret", "class-s3cret"}}
	mgr, err := ctrl.NewManager(of.config(store), store.ManagerOptions(ctrl.Options{
		Scheme: scheme, Logger: log, Controller: config.Controller{SkipNameValidation: new(true)},
	}))
	require.NoError(t, err)
	o := given(t, "--api-group=machinist.dev", "--driver=kwok", "--driver-qps=1000", "--status-delay=0",
		"--driver-credentials=class,secret:system/cloud")
	runMachines(t, store, mgr, o)
	machineOf := func(name, class string) *unstructured.Unstructured {
		spec := "{}"
		if class != "" {
			spec = "{infrastructureRef: {apiGroup: machinist.dev, kind: MachineClass, name: " + class + "}}"
		}
		const format = "apiVersion: machinist.dev/v1beta2\nkind: Machine\nmetadata: {name: %s, namespace: default}\nspec: %s"
		return create(t, store.Client(), fmt.Sprintf(format, name, spec))[0]
	}
	runs := func(n int) {
		eventually(t, fmt.Sprint(n, " Nodes of Machines that run"), func(ctx context.Context) string {
			ready := 0
			for _, m := range listed(ctx, t, store, api.Machinist) {
				if node, phase := nodeAndPhase(api.Machinist, &m); node != "" && phase == "Running" {
					ready++
				}
			}
			if nodes := nodesOf(t, store); ready != n || nodes != n {
				return fmt.Sprint(ready, " Machines, ", nodes, " Nodes")
			}
			return ""
		})
	}
	m1 := machineOf("m1", "")
	runs(1)
	of.accepts("manager", "second-s3cret", "class-s3cret")
	m2, m3 := machineOf("m2", ""), machineOf("m3", "own")
	infrastructureSays(t, store, api.Machinist, m2,
		"Unauthenticated: kwok: list Nodes: the server has asked for the client to provide credentials (get nodes): put a token that has the "+
			"rights into secret:system/cloud")
	runs(2)
	createToken(t, store, "system", "cloud", "second-s3cret")
	runs(3)
	of.accepts("manager", "second-s3cret")
	require.NoError(t, store.Client().Delete(t.Context(), m3))
	eventually(t, "a refused deletion", func(ctx context.Context) string {
		text := describedBy(ctx, t, store, m3)
		if strings.Contains(text, "put a token that has the rights into secret:default/of-class") {
			return ""
		}
		return text
	})
	require.Equal(t, 3, nodesOf(t, store))
	createToken(t, store, "default", "of-class", "second-s3cret")
	runs(2)
	for _, m := range []*unstructured.Unstructured{m1, m2} {
		require.NoError(t, store.Client().Delete(t.Context(), m))
	}
	runs(0)
	mu.Lock()
	defer mu.Unlock()
	of.mu.Lock()
	defer of.mu.Unlock()
	require.Contains(t, of.written.String(), "/events")
	require.NotContains(t, of.written.String(), "s3cret")
	require.NotEmpty(t, logged.String())
	require.NotContains(t, logged.String(), "s3cret")
}

// describedBy is what an object has, as JSON.
func describedBy(ctx context.Context, t *testing.T, store *fake.Store, m *unstructured.Unstructured) string {
	t.Helper()
	require.NoError(t, store.Client().Get(ctx, client.ObjectKeyFromObject(m), m))
	text, err := json.Marshal(m)
	require.NoError(t, err)
	return string(text)
}

func TestRightsFollowTheCredentialsOfTheDriver(t *testing.T) {
	t.Parallel()
	const secrets = "/secrets"
	one := rightsOf(t, "--print-rbac", "--driver=kwok", "--driver-credentials=secret:system/cloud,environment:TOKEN")
	require.Equal(t, []string{"get"}, one["system: "+secrets+" cloud"])
	require.NotContains(t, one, secrets)
	require.NotContains(t, one["/nodes"], "create", "the driver is another user")
	require.Contains(t, rightsOf(t, "--print-rbac", "--driver=kwok")["/nodes"], "create")
	for right := range rightsOf(t, "--print-rbac", "--driver=kwok", "--driver-credentials=environment:TOKEN,metadata:http://a/b") {
		require.NotContains(t, right, "secrets")
	}
	require.Equal(t, []string{"get"}, rightsOf(t, "--print-rbac", "--driver=kwok", "--driver-credentials=class")[secrets])
	narrow := rightsOf(t, "--print-rbac", "--driver=kwok", "--driver-credentials=class", "--namespace=a")
	require.NotContains(t, narrow, secrets)
	require.Equal(t, []string{"get"}, narrow["a: "+secrets])
}

// TestAnInstanceWhoseClassIsGoneIsNotLookedForElsewhere: another account does not have it.
func TestAnInstanceWhoseClassIsGoneIsNotLookedForElsewhere(t *testing.T) {
	t.Parallel()
	store := fake.NewStore(fake.Options{})
	create(t, store.Client(), api.CRDs())
	m := &contract.MachineState{}
	m.Key.Namespace, m.Key.Name = "default", "m1"
	m.Infrastructure = contract.Ref{Group: "machinist.dev", Kind: "MachineClass", Name: "gone"}
	for sources, want := range map[string]string{
		"class,environment:TOKEN": "create it again", "environment:TOKEN": "there are no credentials",
	} {
		o := given(t, "--api-group=machinist.dev", "--driver=kwok", "--driver-credentials="+sources)
		r, err := o.requestOf(store.Client(), store.Client())(t.Context(), m)
		require.True(t, apierrors.IsNotFound(err), err)
		_, err = r.Credentials.Read(t.Context())
		require.ErrorContains(t, err, want)
	}
}
