package machine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// far is the API server of a workload cluster, a store that can be cut off. It is the transport of clients too.
type far struct {
	*fake.Store
	inner http.RoundTripper

	mu      sync.Mutex
	epoch   context.Context // ends what is under way when the server dies; nil while it is down
	end     context.CancelFunc
	refused int
	unread  bool // Nodes can neither be listed nor watched
	version string

	noJSONPatch bool            // as Cluster API's in-memory server
	unserved    map[string]bool // kinds that are not served, by resource
	jsonPatches int
}

func newFar(seed uint64) *far {
	f := &far{Store: fake.NewStore(fake.Options{Seed: seed}), version: "1"}
	f.inner = f.RESTConfig().Transport
	return f
}

// RoundTrip implements http.RoundTripper.
func (f *far) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	epoch, unread := f.epoch, f.unread
	if epoch == nil {
		f.refused++
	}
	f.mu.Unlock()
	if epoch == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	if f.unserved[path.Base(req.URL.Path)] {
		return &http.Response{
			StatusCode: http.StatusNotFound, Body: io.NopCloser(strings.NewReader("404 page not found\n")), Request: req, Header: http.Header{},
		}, nil
	}
	if f.refusesPatch(req) {
		return &http.Response{StatusCode: http.StatusUnsupportedMediaType, Body: http.NoBody, Request: req, Header: http.Header{}}, nil
	}
	if unread && req.URL.Path == "/api/v1/nodes" && req.URL.Query().Get("limit") != "1" {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: req, Header: http.Header{}}, nil
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	context.AfterFunc(epoch, func() { cancel(io.ErrUnexpectedEOF) })
	response, err := f.inner.RoundTrip(req.WithContext(ctx))
	if err == nil && len(f.unserved) > 0 && (req.URL.Path == "/api/v1" || req.URL.Path == "/apis/storage.k8s.io/v1") {
		return f.withoutKinds(response)
	}
	return response, err
}

// withoutKinds leaves kinds that are not served out of the answer to what is served.
func (f *far) withoutKinds(response *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	list := &metav1.APIResourceList{}
	if json.Unmarshal(body, list) == nil && list.Kind == "APIResourceList" {
		list.APIResources = slices.DeleteFunc(list.APIResources, func(r metav1.APIResource) bool { return f.unserved[r.Name] })
		if body, err = json.Marshal(list); err != nil {
			return nil, err
		}
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, nil
}

func (f *far) refusesPatch(req *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.noJSONPatch || req.Header.Get("Content-Type") != string(types.JSONPatchType) {
		return false
	}
	f.jsonPatches++
	return true
}

func (f *far) up() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch, f.end = context.WithCancel(context.Background()) //nolint:forbidigo // ends with the server
	f.refused = 0
}

func (f *far) down() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end()
	f.epoch = nil
}

func (f *far) attempts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// farWorld is a world whose Machines have their Nodes in other clusters, reported by hand.
type farWorld struct {
	*world
	mu     sync.Mutex
	far    map[string]*far // by the name of the cluster; missing: nothing says how it is reached
	passes map[string]int  // by the name of the Machine
}

func newFarWorld(t *testing.T, o machine.Options, clusters map[string]*far) *farWorld {
	t.Helper()
	f := &farWorld{far: clusters, passes: map[string]int{}}
	steps := machine.Steps().InsertBefore(machine.StepPaused, machine.Step{
		Name: "count", On: engine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.passes[s.State.Key.Name]++
			return machine.Result{}, nil
		},
	})
	o.Steps = steps
	f.world = newWorld(t, worldOptions{noCRDs: true, machine: o,
		ports: func(mgr ctrl.Manager, ports *machine.Ports) { f.connect(t, mgr, ports) }, before: providersByHand})
	return f
}

func (f *farWorld) connect(t *testing.T, mgr ctrl.Manager, ports *machine.Ports) {
	t.Helper()
	clusters, err := cluster.New(cluster.Options[machine.Workload]{
		Access: cluster.AccessFunc(f.target), Setup: cluster.WorkloadOptions{Matching: noderef.Rules{}}.Setup(),
		Backoff: wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 5, Cap: 300 * time.Millisecond},
	})
	require.NoError(t, err)
	require.NoError(t, mgr.Add(clusters))
	ports.NodesOf, ports.WorkloadEvents = cluster.NodesOf(clusters), clusters.Source
}

func (f *farWorld) target(_ context.Context, key types.NamespacedName) (cluster.Target, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	server := f.far[key.Name]
	if server == nil {
		return cluster.Target{}, fmt.Errorf("%w: Secret %s-kubeconfig does not exist", cluster.ErrNoKubeconfig, key)
	}
	config := server.RESTConfig()
	config.Transport = server
	return cluster.Target{Config: config, Version: server.version}, nil
}

// joins creates the Node of a Machine, with a taint as kubelets do, in a workload cluster.
func (f *farWorld) joins(server *far, name, providerID string) {
	f.t.Helper()
	require.NoError(f.t, server.Client().Create(f.t.Context(), fake.Node(name, providerID)))
	f.ready(server, name)
}

// ready says of a Node what a kubelet says.
func (f *farWorld) ready(server *far, name string) {
	f.t.Helper()
	node := f.nodeIn(server, name)
	base := client.MergeFrom(node.DeepCopy()) // the reconciler may be writing labels at the same time
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure,
		corev1.NodePIDPressure} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status})
	}
	require.NoError(f.t, server.Client().Status().Patch(f.t.Context(), node, base))
}

func (f *farWorld) nodeIn(server *far, name string) *corev1.Node {
	f.t.Helper()
	var node corev1.Node
	err := server.Client().Get(f.t.Context(), client.ObjectKey{Name: name}, &node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(f.t, err)
	return &node
}

// provisionedIn creates a Machine of a cluster, or of none, whose bootstrap data and infrastructure are there.
func (f *farWorld) provisionedIn(cluster, name, providerID string) *unstructured.Unstructured {
	f.t.Helper()
	m := fake.Machine(name, fake.WithField(cluster, "spec", "clusterName"),
		fake.WithField(map[string]any{"dataSecretName": name}, "spec", "bootstrap"))
	f.Create(fake.InfraMachine(contract.V1Beta2, name), m)
	f.setInfra(name, map[string]any{"initialization": map[string]any{"provisioned": true}}, providerID)
	return m
}

func (f *farWorld) passesOf(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passes[name]
}

// late is how many passes a Machine may still have that were asked for earlier, by safety nets that an event overtook.
const late = 2

// isLeftAlone fails when a Machine is looked at again and again, or anything is asked of the store, for a while.
func (f *farWorld) isLeftAlone(name string) {
	f.t.Helper()
	f.isQuiet()
	before := f.passesOf(name)
	f.Never("a second in which nothing happens", time.Second, func() string {
		if n := f.passesOf(name) - before; n > late {
			return fmt.Sprintf("Machine %s was looked at %d times", name, n)
		}
		return ""
	})
}

// wakesAgainAndAgain changes a Node ten times, and waits each time until a Machine has been looked at.
func (f *farWorld) wakesAgainAndAgain(server *far, node, machine string) {
	f.t.Helper()
	for i := range 10 {
		before, n := f.passesOf(machine), f.nodeIn(server, node)
		base := client.MergeFrom(n.DeepCopy())
		n.Spec.Unschedulable = i%2 == 0
		require.NoError(f.t, server.Client().Patch(f.t.Context(), n, base))
		f.Until("a pass of "+machine, func() bool { return f.passesOf(machine) != before })
	}
}
