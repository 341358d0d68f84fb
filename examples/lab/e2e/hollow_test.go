//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/provider"
	"github.com/machinist-dev/machinist/machine/userdata"
	"github.com/machinist-dev/machinist/noderef/propagate"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// silence is how soon the control plane of this test notices a dead kubelet.
const silence = 10 * time.Second

// TestE2EAMachineBootsARealKubelet starts the kubelets of three Machines from their rendered first-boot data. Pods start and end on them, a
// drain waits for them behind a budget, and a Machine whose kubelet has died goes as well.
func TestE2EAMachineBootsARealKubelet(t *testing.T) {
	plane := hollowPlane(t)
	w := newBareWorld(t, plane)
	driver := newHollow(plane)
	steps := machine.WithDriver(machine.Steps(), machine.DriverOptions{
		Calls: provider.Of(driver), UserData: machine.BootstrapData(w.client), Poll: time.Second,
	})
	kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
	w.startReconciler(kind, machine.Options{Steps: steps, Policy: ofSilentNodes()}, &warnings{})
	seen := w.watchNodes()
	machines, nodes := make([]*unstructured.Unstructured, 3), make([]string, 3)
	for i := range machines {
		machines[i] = w.bootable(fmt.Sprint("hollow-", i))
		uid := string(machines[i].GetUID())
		t.Cleanup(func() { tellOf(t, driver.Kubelet(uid)) })
		nodes[i] = machines[i].GetName()
	}
	for i, m := range machines {
		machines[i] = w.ready(m)
		w.joined(machines[i], seen)
	}
	w.certified(nodes)

	run := w.runWorkload("on-kubelets", nodes)
	require.NoError(t, w.client.Delete(t.Context(), machines[0]))
	w.gone(machines[0])
	w.endedAfterItsPods(run, seen, nodes[0])
	require.Nil(t, driver.Kubelet(string(machines[0].GetUID())), "the kubelet went with its Machine")

	driver.Kubelet(string(machines[1].GetUID())).Kill()
	w.eventually("a silent Node", func() string { return w.silent(nodes[1]) })
	require.NoError(t, w.client.Delete(t.Context(), machines[1]))
	w.gone(machines[1], w.node(nodes[1]))
	require.NoError(t, w.client.Delete(t.Context(), run.budget))
	require.NoError(t, w.client.Delete(t.Context(), machines[2]))
	w.gone(machines[2], w.node(nodes[2]))
}

// hollowPlane starts a control plane to which real kubelets join, and which notices soon when one of them is silent.
func hollowPlane(t *testing.T) *cluster.ControlPlane {
	t.Helper()
	plane, err := cluster.Start(t.Context(), cluster.Options{
		Log: os.Stderr, ManagedNodes: cluster.OtherNodes, ExtraArgs: map[cluster.Component][]string{
			cluster.ControllerManager: {"--node-monitor-grace-period=" + silence.String(), "--node-monitor-period=1s"},
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plane.Stop()) })
	require.NoError(t, cluster.AllowBootstrap(t.Context(), plane.Config()))
	return plane
}

// ofSilentNodes lets pods go whose kubelet has died. A budget would wait for them for as long as they wait for it.
func ofSilentNodes() machine.Policy {
	return machine.Policy{DrainPolicy: &drain.Policy{DeleteAfter: time.Minute, SkipUnreachableAfter: time.Second}}
}

// leased are the settings of a kubelet that renews its Lease every second.
func leased() json.RawMessage { return json.RawMessage(`{"nodeLeaseDurationSeconds": 4}`) }

// tellOf prints the log of a kubelet when a test has failed.
func tellOf(t *testing.T, kubelet *cluster.Kubelet) {
	if !t.Failed() || kubelet == nil {
		return
	}
	log, err := os.ReadFile(kubelet.Log())
	t.Logf("%s, %v, %v:\n%s", kubelet.Log(), kubelet.Err(), err, log)
}

// bootable creates a Machine as a bootstrap provider would: with a Secret that has its first-boot data.
func (w *world) bootable(name string) *unstructured.Unstructured {
	w.t.Helper()
	doc, err := hollowFirstBoot(w.t.Context(), w.plane, userdata.Config{
		Node: userdata.Node{
			Name: name, Labels: map[string]string{"example.com/boot": "rendered"},
			Taints: []corev1.Taint{{Key: "example.com/new", Value: "yes", Effect: corev1.TaintEffectPreferNoSchedule}},
		},
		Kubelet: leased(),
	})
	require.NoError(w.t, err)
	secret := &corev1.Secret{Type: userdata.SecretType, Data: map[string][]byte{"value": doc.Bytes()}}
	secret.Namespace, secret.Name = "default", name
	require.NoError(w.t, w.client.Create(w.t.Context(), secret))
	m := fake.Machine(name, fake.WithField(map[string]any{"dataSecretName": name}, "spec", "bootstrap"))
	require.NoError(w.t, w.client.Create(w.t.Context(), m))
	return m
}

// nodesSeen is what a watch of Nodes showed. Safe for concurrent use.
type nodesSeen struct {
	mu    sync.Mutex
	added map[string]*corev1.Node
	gone  map[string]string // resourceVersion by name
}

func (w *world) watchNodes() *nodesSeen {
	w.t.Helper()
	nodes, err := w.client.Watch(w.t.Context(), &corev1.NodeList{})
	require.NoError(w.t, err)
	seen := &nodesSeen{added: map[string]*corev1.Node{}, gone: map[string]string{}}
	go func() {
		for e := range nodes.ResultChan() {
			node, is := e.Object.(*corev1.Node)
			if !is {
				continue
			}
			seen.mu.Lock()
			switch e.Type {
			case watch.Added:
				seen.added[node.Name] = node
			case watch.Deleted:
				seen.gone[node.Name] = node.ResourceVersion
			}
			seen.mu.Unlock()
		}
	}()
	return seen
}

func (s *nodesSeen) first(name string) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.added[name]
}

func (s *nodesSeen) goneAt(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone[name]
}

func (w *world) node(name string) *corev1.Node {
	node := &corev1.Node{}
	node.Name = name
	return node
}

// joined checks that a Node had its labels and taints from the first moment, and that its Machine removed the uninitialized taint.
func (w *world) joined(m *unstructured.Unstructured, seen *nodesSeen) {
	w.t.Helper()
	var first *corev1.Node
	w.eventually("the event of the Node "+m.GetName(), func() string {
		first = seen.first(m.GetName())
		return map[bool]string{true: "none yet"}[first == nil]
	})
	require.Equal(w.t, "rendered", first.Labels["example.com/boot"])
	keys := map[string]bool{}
	for _, taint := range first.Spec.Taints {
		keys[taint.Key] = true
	}
	require.True(w.t, keys["example.com/new"] && keys[propagate.UninitializedTaintKey], "%v", first.Spec.Taints)
	var node corev1.Node
	require.NoError(w.t, w.client.Get(w.t.Context(), clientKey("", m.GetName()), &node))
	c, err := discovery.NewDiscoveryClientForConfig(w.plane.Config())
	require.NoError(w.t, err)
	server, err := c.ServerVersion()
	require.NoError(w.t, err)
	require.Equal(w.t, server.GitVersion, node.Status.NodeInfo.KubeletVersion, "both are of one release, that of the control plane")
	id, _, err := unstructured.NestedString(m.Object, "spec", "providerID")
	require.NoError(w.t, err)
	require.Equal(w.t, id, node.Spec.ProviderID)
	for _, taint := range node.Spec.Taints {
		require.NotEqual(w.t, propagate.UninitializedTaintKey, taint.Key)
	}
	// The workload of the test waits for Nodes without taints.
	node.Spec.Taints = nil
	require.NoError(w.t, w.client.Patch(w.t.Context(), &node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":null}}`))))
}

// certified checks that each kubelet has asked for its certificate with a token of its own, and that the controller manager signed it.
func (w *world) certified(nodes []string) {
	w.t.Helper()
	var requests certificatesv1.CertificateSigningRequestList
	require.NoError(w.t, w.client.List(w.t.Context(), &requests))
	users := map[string]bool{}
	for _, r := range requests.Items {
		require.Equal(w.t, certificatesv1.KubeAPIServerClientKubeletSignerName, r.Spec.SignerName)
		require.True(w.t, strings.HasPrefix(r.Spec.Username, "system:bootstrap:"), r.Spec.Username)
		require.NotEmpty(w.t, r.Status.Certificate)
		users[r.Spec.Username] = true
	}
	require.Len(w.t, users, len(nodes))
}

// endedAfterItsPods checks that a drain ended before its Node went.
func (w *world) endedAfterItsPods(run *workload, seen *nodesSeen, node string) {
	w.t.Helper()
	w.gone(w.node(node))
	w.eventually("the event of the deletion", func() string {
		if seen.goneAt(node) == "" {
			return "none yet"
		}
		return ""
	})
	w.seesTheEnd(run, node)
	require.Negative(w.t, compare(w.t, run.left(w.t, node), seen.goneAt(node)), "the last pod left before the Node went")
}

// silent: the node lifecycle controller says that the kubelet does not answer.
func (w *world) silent(name string) string {
	var node corev1.Node
	require.NoError(w.t, w.client.Get(w.t.Context(), clientKey("", name), &node))
	if _, silent := drain.UnreachableSince(&node); !silent {
		return "the kubelet still counts as alive"
	}
	return ""
}
