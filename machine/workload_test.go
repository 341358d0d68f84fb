package machine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
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
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
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
	if req.URL.Path == "/readyz" {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("ok")), Request: req, Header: http.Header{}}, nil
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
	steps, err := machine.InsertBefore(machine.Steps(), machine.StepPaused, machine.Step{
		Name: "count", On: machine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.passes[s.State.Key.Name]++
			return machine.Result{}, nil
		},
	})
	require.NoError(t, err)
	o.Steps = steps
	f.world = newWorld(t, worldOptions{noCRDs: true, machine: o, ports: func(mgr ctrl.Manager, ports *machine.Ports) { f.connect(t, mgr, ports) }, before: func(w *world) {
		w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
		w.create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
	}})
	return f
}

func (f *farWorld) connect(t *testing.T, mgr ctrl.Manager, ports *machine.Ports) {
	t.Helper()
	clusters, err := cluster.New(cluster.Options[machine.Workload]{
		Access: cluster.AccessFunc(f.target), Setup: machine.SetupWorkload(noderef.Rules{}),
		Backoff: wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 5, Cap: 300 * time.Millisecond},
	})
	require.NoError(t, err)
	require.NoError(t, mgr.Add(clusters))
	ports.NodesOf, ports.WorkloadEvents = machine.NodesOf(clusters), clusters.Source
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
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
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
	f.create(fake.InfraMachine(contract.V1Beta2, name), m)
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
	time.Sleep(time.Second)
	if n := f.passesOf(name) - before; n > late {
		f.t.Errorf("Machine %s was looked at %d times in a second in which nothing happened", name, n)
	}
}

// wakesAgainAndAgain changes a Node ten times, and waits each time until a Machine has been looked at.
func (f *farWorld) wakesAgainAndAgain(server *far, node, machine string) {
	f.t.Helper()
	for i := range 10 {
		before, n := f.passesOf(machine), f.nodeIn(server, node)
		base := client.MergeFrom(n.DeepCopy())
		n.Spec.Unschedulable = i%2 == 0
		require.NoError(f.t, server.Client().Patch(f.t.Context(), n, base))
		f.eventually("a pass of "+machine, func() string {
			if f.passesOf(machine) == before {
				return "there is none"
			}
			return ""
		})
	}
}

func TestAMachineWaitsForItsClusterAndGoesOnWhenItIsConnected(t *testing.T) {
	t.Parallel()
	server := newFar(1)
	server.up()
	f := newFarWorld(t, machine.Options{}, map[string]*far{})
	m := f.provisionedIn("prod", "m", "fake://x/1")

	t.Log("what concerns no Node goes on")
	for _, kind := range []string{machine.ConditionNodeReady, machine.ConditionNodeHealthy} {
		f.conditionSays(m, kind, machine.ReasonConnectionDown, "cluster default/prod is not connected", "Secret default/prod-kubeconfig does not exist")
	}
	f.conditionIs(m, machine.ConditionInfrastructureReady, machine.ReasonReady)
	require.Equal(t, "fake://x/1", providerIDOf(f.get(m)))
	f.isLeftAlone("m")

	t.Log("a connection wakes it, and so does its Node")
	f.mu.Lock()
	f.far["prod"] = server
	f.mu.Unlock()
	f.conditionSays(m, machine.ConditionNodeReady, machine.ReasonInspectionFailed, "Waiting for a Node with spec.providerID fake://x/1")
	f.joins(server, "n", "fake://x/1")
	f.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	require.Equal(t, "m", f.nodeIn(server, "n").Annotations[propagate.MachineAnnotation])
	f.isLeftAlone("m")

	t.Log("a new connection is listened to in place of the old one")
	server.mu.Lock()
	server.version = "2"
	server.mu.Unlock()
	server.down()
	server.up()
	second := f.provisionedIn("prod", "second", "fake://x/2")
	f.conditionIs(second, machine.ConditionNodeReady, machine.ReasonInspectionFailed)
	f.joins(server, "n2", "fake://x/2")
	f.conditionIs(second, machine.ConditionReady, machine.ReasonReady)
	require.Zero(t, f.writes()["Node"], "Nodes of the manager's own cluster are none of its business")

	require.NoError(t, f.client.Delete(t.Context(), m))
	require.NoError(t, f.client.Delete(t.Context(), second))
	f.goes(m, second)
	require.Nil(t, f.nodeIn(server, "n"))
	require.Nil(t, f.nodeIn(server, "n2"))
}

func TestEqualNodesOfTwoClustersAreNeverMixedUp(t *testing.T) {
	t.Parallel()
	a, b := newFar(1), newFar(2)
	a.up()
	b.up()
	f := newFarWorld(t, machine.Options{}, map[string]*far{"a": a, "b": b})
	ma, mb := f.provisionedIn("a", "ma", "fake://x/1"), f.provisionedIn("b", "mb", "fake://x/1")
	own := f.provisionedIn("", "own", "fake://x/1")
	f.conditionIs(ma, machine.ConditionNodeReady, machine.ReasonInspectionFailed)
	f.conditionIs(mb, machine.ConditionNodeReady, machine.ReasonInspectionFailed)
	f.isQuiet()

	t.Log("a Node wakes the Machine of its own cluster")
	before := f.passesOf("mb")
	f.joins(a, "n", "fake://x/1")
	f.conditionIs(ma, machine.ConditionReady, machine.ReasonReady)
	f.wakesAgainAndAgain(a, "n", "ma")
	require.LessOrEqual(t, f.passesOf("mb")-before, late)
	f.joins(b, "n", "fake://x/1")
	f.conditionIs(mb, machine.ConditionReady, machine.ReasonReady)
	t.Log("a Machine that names no cluster has its Node where it is itself")
	f.conditionIs(own, machine.ConditionNodeReady, machine.ReasonInspectionFailed)
	f.create(fake.Node("n", "fake://x/1"))
	f.conditionIs(own, machine.ConditionReady, machine.ReasonReady)
	require.Equal(t, "own", f.node("n").Annotations[propagate.MachineAnnotation])
	require.Equal(t, "ma", f.nodeIn(a, "n").Annotations[propagate.MachineAnnotation])
	require.Equal(t, "mb", f.nodeIn(b, "n").Annotations[propagate.MachineAnnotation])

	t.Log("and goes with it")
	f.isQuiet()
	b.ResetRequests()
	before = f.passesOf("mb")
	require.NoError(t, f.client.Delete(t.Context(), ma))
	f.goes(ma)
	require.Nil(t, f.nodeIn(a, "n"))
	require.False(t, f.nodeIn(b, "n").Spec.Unschedulable)
	require.Zero(t, b.CountRequests(fake.Request.IsWrite))
	require.LessOrEqual(t, f.passesOf("mb")-before, late)
	require.False(t, f.node("n").Spec.Unschedulable)
}

func TestAClusterThatDiesHoldsItsOwnMachinesOnly(t *testing.T) {
	t.Parallel()
	a, b := newFar(1), newFar(2)
	a.up()
	b.up()
	f := newFarWorld(t, machine.Options{ConnectionGrace: -1}, map[string]*far{"a": a, "b": b})
	ma := f.provisionedIn("a", "ma", "fake://x/1")
	f.joins(a, "na", "fake://x/1")
	f.conditionIs(ma, machine.ConditionReady, machine.ReasonReady)
	a.ResetRequests()

	a.down()
	message := f.conditionSays(ma, machine.ConditionNodeHealthy, machine.ReasonConnectionDown,
		"cluster default/a is not connected", "connection refused", "last seen", "check the API server")
	f.isLeftAlone("ma")
	require.Equal(t, message, conditionOf(f.get(ma), machine.ConditionNodeHealthy).Message, "it says the same while it is the same")

	t.Log("Machines of other clusters do not notice")
	mb := f.provisionedIn("b", "mb", "fake://x/2")
	f.joins(b, "nb", "fake://x/2")
	f.conditionIs(mb, machine.ConditionReady, machine.ReasonReady)

	t.Log("a deletion waits, and says for what")
	require.NoError(t, f.client.Delete(t.Context(), ma))
	f.conditionSays(ma, machine.ConditionDeleting, machine.ReasonDrainingNode, "cluster default/a is not connected")
	f.isLeftAlone("ma")
	require.Nil(t, f.get(fake.InfraMachine(contract.V1Beta2, "ma")).GetDeletionTimestamp())
	t.Logf("the dead server was asked %d times", a.attempts())
	require.Empty(t, a.Requests())

	t.Log("also when the drain is excluded, and then the volumes are and the machine has gone")
	f.change(ma, fake.WithAnnotations(map[string]string{contract.ExcludeDrain: ""}))
	f.conditionSays(ma, machine.ConditionDeleting, machine.ReasonWaitingForVolumeDetach, "cluster default/a is not connected")
	require.Nil(t, f.get(fake.InfraMachine(contract.V1Beta2, "ma")).GetDeletionTimestamp())
	f.change(ma, fake.WithAnnotations(map[string]string{contract.ExcludeVolumeDetach: ""}))
	f.conditionSays(ma, machine.ConditionDeleting, machine.ReasonDeletingNode, "cluster default/a is not connected")
	f.isLeftAlone("ma")

	a.up()
	f.goes(ma)
	require.Nil(t, f.nodeIn(a, "na"))
}

func TestReadinessOutlivesAConnectionForAWhile(t *testing.T) {
	t.Parallel()
	a := newFar(1)
	a.up()
	f := newFarWorld(t, machine.Options{ConnectionGrace: 2 * time.Second}, map[string]*far{"a": a})
	m := f.provisionedIn("a", "m", "fake://x/1")
	f.joins(a, "n", "fake://x/1")
	f.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	f.isQuiet()

	a.down()
	f.eventually("the Machine to be woken", func() string {
		if f.passesOf("m") == 0 {
			return "not yet"
		}
		return ""
	})
	require.Equal(t, machine.ReasonReady, conditionOf(f.get(m), machine.ConditionReady).Reason)
	f.conditionIs(m, machine.ConditionNodeReady, machine.ReasonConnectionDown)
	f.conditionIs(m, machine.ConditionReady, machine.ReasonReadyUnknown)
	a.up()
	f.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
}

func TestNodesOfNeedsWhatWakesMachines(t *testing.T) {
	mgr, err := fake.NewStore(fake.Options{}).NewManager(ctrl.Options{})
	require.NoError(t, err)
	ports := machine.Ports{Client: mgr.GetClient(), Cache: mgr.GetCache(), APIReader: mgr.GetAPIReader()}
	kind := contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2())
	_, err = machine.New(kind, ports, machine.Options{})
	require.ErrorContains(t, err, "neither Ports.Nodes nor Ports.NodesOf")
	ports.NodesOf = func(types.NamespacedName) (machine.Workload, error) {
		return machine.Workload{}, cluster.ErrNotConnected
	}
	r, err := machine.New(kind, ports, machine.Options{})
	require.NoError(t, err)
	require.ErrorContains(t, r.AddToManager(t.Context(), mgr), "Ports.WorkloadEvents is not set")
}

func providerIDOf(m *unstructured.Unstructured) string {
	id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
	return id
}

func TestAClusterWithoutJSONPatchHasItsNodesLabelled(t *testing.T) {
	t.Parallel()
	server := newFar(1)
	server.noJSONPatch = true
	server.up()
	f := newFarWorld(t, machine.Options{}, map[string]*far{"prod": server})
	m := f.provisionedIn("prod", "m", "fake://x/1")
	f.change(m, func(m *unstructured.Unstructured) { m.SetLabels(map[string]string{"node.cluster.x-k8s.io/pool": "a"}) })
	f.joins(server, "n", "fake://x/1")
	f.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	f.eventually("the label on the Node", func() string {
		if f.nodeIn(server, "n").Labels["node.cluster.x-k8s.io/pool"] != "a" {
			return "there is none"
		}
		return ""
	})
	require.NoError(t, f.client.Delete(t.Context(), m))
	f.goes(m)
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.jsonPatches != 1 {
		t.Errorf("want one JSON patch, which is refused, got %d", server.jsonPatches)
	}
}

func TestAClusterWithoutVolumesHasItsNodesFoundAndIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, unserved := range map[string][]string{
		"no PersistentVolumes":                       {"persistentvolumes"},
		"no VolumeAttachments":                       {"volumeattachments"},
		"neither, and no Namespaces that are listed": {"volumeattachments", "persistentvolumes", "namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newFar(1)
			server.unserved = map[string]bool{}
			for _, resource := range unserved {
				server.unserved[resource] = true
			}
			server.up()
			f := newFarWorld(t, machine.Options{}, map[string]*far{"prod": server})
			m := f.provisionedIn("prod", "m", "fake://x/1")
			f.joins(server, "n", "fake://x/1")
			f.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
			require.NoError(t, f.client.Delete(t.Context(), m))
			f.goes(m)
		})
	}
}

func TestTheVolumesOfANodeThatCannotBeReadAreNamed(t *testing.T) {
	t.Parallel()
	server := newFar(1)
	server.unserved = map[string]bool{"persistentvolumes": true}
	server.up()
	f := newFarWorld(t, machine.Options{}, map[string]*far{"prod": server})
	m := f.provisionedIn("prod", "m", "fake://x/1")
	f.joins(server, "n", "fake://x/1")
	f.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	f.change(m, func(m *unstructured.Unstructured) { m.SetAnnotations(map[string]string{contract.ExcludeDrain: ""}) })
	there := &world{t: t, store: server.Store, client: server.Client()}
	there.attach("data", "n")
	require.NoError(t, f.client.Delete(t.Context(), m))
	f.waitsForVolumes(m, "PersistentVolume", "no matches for kind")
}
