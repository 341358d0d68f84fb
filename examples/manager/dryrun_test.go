package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machineset"
)

// said are the lines of a log.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) logger() logr.Logger {
	return funcr.New(func(_, line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines = append(s.lines, line)
	}, funcr.Options{})
}

// missing returns the texts that no line about a write has.
func (s *said) missing(texts ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.lines, "\n")
	for _, text := range texts {
		if !strings.Contains(all, text) {
			return "no line with " + text
		}
	}
	return ""
}

// The wiring is that of newManager with --driver and --machinesets, whose metrics can be registered once in a process only.
func TestADryRunStoresNothing(t *testing.T) {
	t.Parallel()
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{
		{GVK: fake.MachineGVK(), Status: true}, {GVK: api.ClusterAPI.MachineSet().GVK, Status: true},
	}})
	leaving := fake.Machine("leaving", func(u *unstructured.Unstructured) { u.SetFinalizers([]string{contract.MachineFinalizer}) })
	labels := map[string]any{"pool": "workers"}
	set := fake.Machine("workers")
	set.SetGroupVersionKind(api.ClusterAPI.MachineSet().GVK)
	set.Object["spec"] = map[string]any{
		"clusterName": "demo", "replicas": int64(2), "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
			"clusterName": "demo", "bootstrap": map[string]any{"dataSecretName": "data"},
		}},
	}
	fresh := fake.Machine("new", fake.WithField(map[string]any{"dataSecretName": "data"}, "spec", "bootstrap"))
	set.SetFinalizers([]string{"cluster.x-k8s.io/machineset"})
	for _, obj := range []client.Object{fresh, leaving, set} {
		require.NoError(t, store.Client().Create(t.Context(), obj))
	}
	require.NoError(t, store.Client().Delete(t.Context(), leaving))
	store.ResetRequests()

	var log said
	o := given(t, "--dry-run", "--machinesets", "--driver=kwok")
	mgr := managerFor(t, o.held(store.RESTConfig(), log.logger()), store)
	runMachinesOf(t, mgr, o)
	eventually(t, "all would be written", func(context.Context) string {
		return log.missing("/machines/new", "/machines/leaving", `/machines"`)
	})
	for _, r := range store.Requests() {
		require.False(t, r.IsWrite(), "%+v", r)
	}
	var machines unstructured.UnstructuredList
	machines.SetGroupVersionKind(fake.MachineGVK())
	require.NoError(t, store.Client().List(t.Context(), &machines))
	require.Len(t, machines.Items, 2, "none was made, and none removed")
	require.NoError(t, store.Client().Get(t.Context(), client.ObjectKeyFromObject(fresh), fresh))
	require.Empty(t, fresh.GetFinalizers())
	require.NotContains(t, fresh.Object, "status")
}

// managerFor returns a manager for a store that is reached with a configuration.
func managerFor(t *testing.T, cfg *rest.Config, store *fake.Store) ctrl.Manager {
	t.Helper()
	scheme, err := newScheme(api.ClusterAPI)
	require.NoError(t, err)
	mgr, err := ctrl.NewManager(cfg, store.ManagerOptions(ctrl.Options{
		Scheme: scheme, Logger: logr.Discard(), Controller: config.Controller{SkipNameValidation: new(true)},
	}))
	require.NoError(t, err)
	return mgr
}

// runMachinesOf starts the reconcilers of Machines, with the driver of the flags, and of MachineSets, until the test ends.
func runMachinesOf(t *testing.T, mgr ctrl.Manager, o settings) {
	t.Helper()
	c, err := o.driverClient(mgr)
	require.NoError(t, err)
	steps, err := machine.WithDriver(machine.Steps(), machine.DriverOptions{Calls: o.driverCalls(c, nil)})
	require.NoError(t, err)
	_, err = machine.SetupWithManager(t.Context(), mgr, api.ClusterAPI.Machine(), machine.Options{Steps: steps, StatusDelay: -1})
	require.NoError(t, err)
	_, err = machineset.SetupWithManager(t.Context(), mgr, setKinds(api.ClusterAPI), machineset.Options{StatusDelay: -1})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background()) // ends in Cleanup, after the test's own context
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
}

func TestEveryKindOfWriteIsADryRun(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		var sent []sentRequest
		cfg := &rest.Config{Host: "http://127.0.0.1:1", ContentConfig: rest.ContentConfig{ContentType: encoding}, Transport: roundTrip(
			func(r *http.Request) (*http.Response, error) {
				one := sentRequest{method: r.Method, path: r.URL.Path, dry: r.URL.Query().Get("dryRun"), contentType: r.Header.Get("Content-Type")}
				if r.Body != nil {
					body, err := io.ReadAll(r.Body)
					require.NoError(t, err)
					one.body = string(body)
				}
				sent = append(sent, one)
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
					Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))}, nil
			})}
		c, err := kubernetes.NewForConfig(given(t, "--dry-run").held(cfg, logr.Discard()))
		require.NoError(t, err)
		pods, uid := c.CoreV1().Pods("default"), metav1.NewUIDPreconditions("u1")
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}
		require.NoError(t, pods.EvictV1(t.Context(), eviction))
		require.NoError(t, pods.Delete(t.Context(), "p", metav1.DeleteOptions{Preconditions: uid}))
		require.NoError(t, pods.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "a=b"}))
		_, _ = pods.Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
		_, _ = pods.Update(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.UpdateOptions{})
		_, _ = pods.Patch(t.Context(), "p", "application/merge-patch+json", []byte("{}"), metav1.PatchOptions{})
		require.Len(t, sent, 6)
		for _, one := range sent {
			require.Equal(t, metav1.DryRunAll, one.dry, one)
			if one.method == http.MethodDelete { // the query does not count for a delete with a body
				require.Equal(t, "application/json", one.contentType)
				require.Contains(t, one.body, `"dryRun":["All"]`)
			}
		}
		require.Contains(t, sent[1].body, `"preconditions":{"uid":"u1"}`, "what a delete asks for is kept")

		_, _ = pods.Get(t.Context(), "p", metav1.GetOptions{})
		require.Empty(t, sent[6].dry, "a read is left alone")
		err = c.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("p").SubResource("exec").Do(t.Context()).Error()
		require.ErrorContains(t, err, "--dry-run: POST /api/v1/namespaces/default/pods/p/exec was not sent: a connection has no dry run")
		require.Len(t, sent, 7)
	}
}

type sentRequest struct{ method, path, dry, contentType, body string }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnObjectMayHaveTheNameOfAConnection(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/api/v1/namespaces/default/pods/p/exec": true, "/api/v1/nodes/n/proxy/metrics": true,
		"/api/v1/namespaces/default/services/s/proxy": true,
		"/api/v1/namespaces/default/pods/exec":        false, "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines/proxy": false,
		"/api/v1/namespaces/default/pods/p/eviction": false, "/api/v1/nodes/proxy": false, "/": false,
	} {
		require.Equal(t, want, isConnection(path), path)
	}
}

func TestADeleteThatCannotBeReadIsNotSent(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]string{
		"application/cbor": "content type application/cbor", "application/json": "cannot be read", "": "content type",
		runtime.ContentTypeProtobuf: "no protobuf of Kubernetes",
	} {
		_, err := dryDeletion([]byte("\xff"), contentType)
		require.ErrorContains(t, err, want)
	}
}

func TestADryRunTakesNoLeaseAndInstallsNothing(t *testing.T) {
	t.Parallel()
	o := given(t, "--dry-run", "--leader-elect", "--leader-election-namespace=system")
	require.False(t, managerOptions(o, nil, logr.Discard()).LeaderElection)
	require.True(t, managerOptions(given(t, "--leader-elect"), nil, logr.Discard()).LeaderElection)
	_, err := parse([]string{"--dry-run", "--install-crds", "--api-group=machinist.dev"}, io.Discard)
	require.ErrorContains(t, err, "--dry-run: give no --install-crds")
	cfg := &rest.Config{}
	require.Same(t, cfg, given(t).held(cfg, logr.Discard()), "without the flag nothing stands between")
}
