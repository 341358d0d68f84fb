//go:build e2e

package e2e_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	workloads "github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/machinist-dev/machinist/noderef/propagate"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// fleet is a manager whose Machines have their Nodes in cluster "far", by its Secret, or in cluster "home", which is where the
// Machines are. It counts what is sent to the far one, because a dead API server has no audit log.
type fleet struct {
	*far
	mu   sync.Mutex
	sent []string
}

func newFleet(t *testing.T, o machine.Options) *fleet {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	plane := shared(t)
	live, err := client.NewWithWatch(plane.Config(), client.Options{})
	require.NoError(t, err)
	f := &fleet{far: &far{world: &world{t: t, plane: plane, client: live}, key: clientKey("default", "far")}}
	f.workload, err = cluster.Start(t.Context(), cluster.Options{
		Log: os.Stderr, Without: []cluster.Component{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.workload.Stop()) })
	f.nodes, err = client.New(f.workload.Config(), client.Options{})
	require.NoError(t, err)
	f.installCRDs("v1beta2")
	f.startProviders(worldOptions{infrastructure: fake.Infrastructure{NoNode: true}})
	f.startReconciler(o)
	f.secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "far-kubeconfig", Labels: map[string]string{contract.ClusterNameLabel: "far"}},
		Type:       "cluster.x-k8s.io/secret", Data: f.kubeconfig("fleet"),
	}
	require.NoError(t, live.Create(t.Context(), f.secret))
	t.Cleanup(func() { _ = live.Delete(context.WithoutCancel(t.Context()), f.secret) })
	return f
}

// access reaches home with the configuration of a manager, and others by Secrets. It keeps the notifications of Secrets.
type access struct {
	*workloads.Secrets
	home *rest.Config
	sent func(*http.Request)
}

func (a access) Target(ctx context.Context, key types.NamespacedName) (workloads.Target, error) {
	if key.Name == "home" {
		return workloads.Target{Config: a.home, Version: "home"}, nil
	}
	target, err := a.Secrets.Target(ctx, key)
	if err == nil {
		target.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				a.sent(req)
				return next.RoundTrip(req)
			})
		})
	}
	return target, err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// fleetAgent is what the manager calls itself towards the cluster where the Machines are.
const fleetAgent = "machinist-fleet-test"

func (f *fleet) startReconciler(o machine.Options) {
	f.t.Helper()
	home := rest.CopyConfig(f.plane.Config())
	home.UserAgent = fleetAgent
	mgr, err := ctrl.NewManager(home, ctrl.Options{
		Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}, // kubernetes-sigs/controller-runtime#3538
	})
	require.NoError(f.t, err)
	secrets, err := workloads.SecretsFromManager(mgr)
	require.NoError(f.t, err)
	clusters, err := workloads.New(workloads.Options[workloads.Workload]{
		Access: access{Secrets: secrets, home: mgr.GetConfig(), sent: f.count}, UserAgent: workloadAgent,
		Setup:   workloads.WorkloadOptions{}.Setup(),
		Backoff: wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 3, Cap: 2 * time.Second},
	})
	require.NoError(f.t, err)
	require.NoError(f.t, mgr.Add(clusters))
	r, err := machine.New(contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine), machine.Ports{
		Ports:   pass.PortsFromManager(mgr),
		NodesOf: workloads.NodesOf(clusters), WorkloadEvents: clusters.Source,
	}, o)
	require.NoError(f.t, err)
	require.NoError(f.t, r.AddToManager(f.t.Context(), mgr))
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		require.NoError(f.t, <-done)
	})
}

func (f *fleet) count(req *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, req.Method+" "+req.URL.Path)
}

// takeSent returns what was sent to the far cluster since the last call.
func (f *fleet) takeSent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	sent := f.sent
	f.sent = nil
	return sent
}

// machineIn creates a Machine of a cluster and waits until its infrastructure has a provider ID, which it returns.
func (f *fleet) machineIn(cluster, name string) (*unstructured.Unstructured, string) {
	f.t.Helper()
	m := fake.Machine(name, fake.WithField(cluster, "spec", "clusterName"),
		fake.WithLabels(map[string]string{"node-role.kubernetes.io/worker": ""}))
	for _, obj := range []client.Object{fake.BootstrapConfig(contract.V1Beta2, name), fake.InfraMachine(contract.V1Beta2, name), m} {
		require.NoError(f.t, f.client.Create(f.t.Context(), obj))
	}
	id := ""
	f.eventually("the provider ID of "+name, func() string {
		id, _, _ = unstructured.NestedString(f.get(m).Object, "spec", "providerID")
		if id == "" {
			return describe(f.get(m))
		}
		return ""
	})
	return m, id
}

// joinsFar lets a Node join the far cluster, which has no kubelets.
func (f *fleet) joinsFar(name, id string) {
	f.t.Helper()
	require.NoError(f.t, f.register(f.t.Context(), name, id))
}

// register does what a kubelet does, once.
func (f *fleet) register(ctx context.Context, name, id string) error {
	node := fake.Node(name, id)
	if err := f.nodes.Create(ctx, node); apierrors.IsAlreadyExists(err) {
		err = f.nodes.Get(ctx, clientKey("", name), node)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse},
	}
	return f.nodes.Status().Patch(ctx, node, client.MergeFrom(before))
}

func (f *fleet) conditionSays(m *unstructured.Unstructured, kind, reason, text string) {
	f.t.Helper()
	f.eventually(m.GetName()+": "+kind+" to say "+reason, func() string {
		c, _, err := contract.ConditionsAt("status", "conditions").Find(f.get(m).Object, kind)
		if err != nil || c.Reason != reason || !strings.Contains(c.Message, text) {
			return describe(f.get(m))
		}
		return ""
	})
}

func TestAWorkloadClusterThatDiesHoldsItsOwnMachinesOnlyOnRealControlPlanes(t *testing.T) {
	f := newFleet(t, machine.Options{ConnectionGrace: -1})
	first, id := f.machineIn("far", "far-first")
	f.joinsFar("far-first", id)
	f.ready(first)
	f.takeSent()

	mark := f.mark()
	require.NoError(t, f.workload.Kill(cluster.APIServer))
	began := time.Now()
	f.conditionSays(first, machine.ConditionNodeHealthy, contract.ReasonConnectionDown, "cluster default/far is not connected")
	t.Logf("the Machine says so after %s", time.Since(began).Round(time.Millisecond))

	home, homeID := f.machineIn("home", "home-first")
	require.NoError(t, f.client.Create(t.Context(), fake.Node("home-first", homeID)))
	f.ready(home)
	second, id := f.machineIn("far", "far-second")
	f.conditionSays(second, contract.ConditionNodeReady, contract.ReasonConnectionDown, "check the API server")
	require.NoError(t, f.client.Delete(t.Context(), first))
	f.conditionSays(first, contract.ConditionDeleting, contract.ReasonDrainingNode, "cluster default/far is not connected")
	require.NotNil(t, f.get(fake.InfraMachine(contract.V1Beta2, "far-first")))
	time.Sleep(time.Until(began.Add(6 * time.Second))) // an outage that is worth counting in
	down, sent := time.Since(began), f.takeSent()

	require.NoError(t, f.workload.Restart(t.Context(), cluster.APIServer))
	up := time.Now()
	f.joinsFar("far-second", id)
	f.ready(second)
	t.Logf("down for %s, in which %d requests were sent, %v; the waiting Machine was ready %s after the server",
		down.Round(time.Millisecond), len(sent), sent, time.Since(up).Round(time.Millisecond))
	// The longer the server is down, the more often it is probed.
	require.Less(t, len(sent), 19+int(down.Seconds()), "probes with a growing pause, and what was under way when the server died")
	f.gone(first, fake.InfraMachine(contract.V1Beta2, "far-first"))
	t.Logf("the Machine in deletion was gone %s after the server was back", time.Since(up).Round(time.Millisecond))

	f.wroteNodes(mark, "far-first", "far-second")
	var node corev1.Node
	require.NoError(t, f.client.Get(t.Context(), clientKey("", "home-first"), &node))
	require.Equal(t, "home-first", node.Annotations[propagate.MachineAnnotation])
	for _, m := range []*unstructured.Unstructured{home, second} {
		require.NoError(t, f.client.Delete(t.Context(), m))
	}
	f.gone(home, second)
}

// wroteNodes checks that the far cluster has seen no writes but those on the Nodes of its Machines.
func (f *fleet) wroteNodes(mark cluster.AuditMark, names ...string) {
	f.t.Helper()
	allowed := map[string]bool{}
	for _, name := range names {
		allowed[name] = true
	}
	made := f.requests(mark, "fleet")
	f.t.Logf("of the far cluster's audit log: %s", made)
	for _, e := range made.Writes() {
		if e.Resource != "nodes" || !allowed[e.Name] {
			f.t.Errorf("an unexpected write: %s", e)
		}
	}
	err := f.nodes.Get(f.t.Context(), clientKey("", names[0]), &corev1.Node{})
	require.True(f.t, client.IgnoreNotFound(err) == nil && err != nil, "the Node of the deleted Machine: %v", err)
}
