//go:build e2e

package e2e_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/propagate"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const workerLabel = "node-role.kubernetes.io/worker"

// scene is a part of a world for one scenario: a namespace, and Nodes whose names begin with it. The test is the infrastructure
// provider, the kubelet and the person; kwok makes the Nodes Ready.
type scene struct {
	*world
	name   string
	passes *passes
}

// newScene must be called from the scenario's own test, beside which others run.
func newScene(t *testing.T, w *world, seen *passes) *scene {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "scene-"}}
	require.NoError(t, w.client.Create(t.Context(), ns))
	return &scene{world: &world{t: t, plane: w.plane, client: w.client}, name: ns.Name, passes: seen}
}

func (s *scene) options() []fake.Option {
	return []fake.Option{
		fake.InNamespace(s.name), fake.WithLabels(map[string]string{workerLabel: ""}),
		fake.WithField(map[string]any{"dataSecretName": "given"}, "spec", "bootstrap"),
	}
}

// machine creates a Machine whose infrastructure has not reported anything yet.
func (s *scene) machine(name string) *unstructured.Unstructured {
	s.t.Helper()
	m := fake.Machine(name, s.options()...)
	require.NoError(s.t, s.client.Create(s.t.Context(), fake.InfraMachine(contract.V1Beta2, name, fake.InNamespace(s.name))))
	require.NoError(s.t, s.client.Create(s.t.Context(), m))
	return m
}

// provisioned creates a Machine whose infrastructure has reported a provider ID, and waits until it has taken that over.
func (s *scene) provisioned(name, id string) *unstructured.Unstructured {
	s.t.Helper()
	m := s.machine(name)
	s.reports(name, id)
	s.knows(m, id)
	return m
}

// id is a provider ID of this scene only.
func (s *scene) id(name string) string { return "fake://" + s.name + "/" + name }

// reports writes what the provider of an InfraMachine says. The status comes last: that is what the contract waits for.
func (s *scene) reports(name, id string) {
	s.t.Helper()
	obj := fake.InfraMachine(contract.V1Beta2, name, fake.InNamespace(s.name))
	spec := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"providerID":"`+id+`"}}`))
	require.NoError(s.t, s.client.Patch(s.t.Context(), obj, spec))
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"initialization":{"provisioned":true}}}`))
	require.NoError(s.t, s.client.Status().Patch(s.t.Context(), obj, status))
}

func (s *scene) knows(m *unstructured.Unstructured, id string) {
	s.t.Helper()
	s.eventually(m.GetName()+" to know its provider ID", func() string {
		if got := s.state(m).ProviderID; got != id {
			return "it has " + got
		}
		return ""
	})
}

// state is what a Machine says; it is empty when the Machine is gone.
func (s *scene) state(m *unstructured.Unstructured) contract.MachineState {
	s.t.Helper()
	var state contract.MachineState
	if fresh := s.get(m); fresh != nil {
		require.NoError(s.t, machineKind().Adapter.Read(fresh, &state))
	}
	return state
}

func machineKind() contract.Kind {
	return contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
}

// join registers a Node of this scene, as a kubelet does.
func (s *scene) join(name, id string) *corev1.Node {
	s.t.Helper()
	node := fake.Node(s.name+"-"+name, id)
	require.NoError(s.t, s.client.Create(s.t.Context(), node))
	return node
}

// node reads a Node again, nil when there is none of that name.
func (s *scene) node(node *corev1.Node) *corev1.Node {
	s.t.Helper()
	var fresh corev1.Node
	err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(node), &fresh)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil
	}
	require.NoError(s.t, err)
	return &fresh
}

// says waits until a condition of a Machine has a reason and a message with all the words, and returns the message.
func (s *scene) says(m *unstructured.Unstructured, kind, reason string, words ...string) string {
	s.t.Helper()
	message := ""
	s.eventually(m.GetName()+": "+kind+" to say "+reason+" with "+strings.Join(words, ", "), func() string {
		fresh := s.get(m)
		if fresh == nil {
			return "the Machine is gone"
		}
		c, _, err := contract.ConditionsAt("status", "conditions").Find(fresh.Object, kind)
		missing := slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(c.Message, word) })
		if err != nil || c.Reason != reason || missing {
			return describe(fresh)
		}
		message = c.Message
		return ""
	})
	s.t.Logf("%s: %s %s: %s", m.GetName(), kind, reason, message)
	return message
}

// has waits until a Machine has recorded a Node by name and UID, and has given it everything that a Machine gives.
func (s *scene) has(m *unstructured.Unstructured, node *corev1.Node) {
	s.t.Helper()
	want := contract.NodeRef{Name: node.Name, UID: node.UID}
	s.eventually(m.GetName()+" to have Node "+node.Name, func() string {
		if got := s.state(m).Node; got != want {
			return "it has recorded " + got.Name + " " + string(got.UID) + describe(s.get(m))
		}
		fresh := s.node(node)
		_, worker := fresh.Labels[workerLabel]
		mark := fresh.Annotations[propagate.ClusterNamespaceAnnotation] + "/" + fresh.Annotations[propagate.MachineAnnotation]
		if !worker || mark != s.name+"/"+m.GetName() || isUninitialized(fresh) {
			return "the Node is " + fresh.String()
		}
		return ""
	})
	s.says(m, contract.ConditionNodeReady, machine.ReasonNodeReady)
}

func isUninitialized(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == propagate.UninitializedTaintKey })
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// untouched runs a part of a scenario in which the reconciler must not make any request about a Node.
func (s *scene) untouched(node *corev1.Node, part func()) {
	s.t.Helper()
	mark, err := s.plane.Audit().Mark()
	require.NoError(s.t, err)
	part()
	events, err := s.plane.Audit().Since(mark)
	require.NoError(s.t, err)
	about := events.From(managerAgent).To("", "nodes").Where(func(e cluster.AuditEvent) bool { return e.Name == node.Name })
	if len(about) > 0 {
		s.t.Errorf("Node %s must be left alone: %s", node.Name, about)
	}
	fresh := s.node(node)
	if fresh == nil || fresh.UID != node.UID || fresh.DeletionTimestamp != nil || fresh.Spec.Unschedulable {
		s.t.Errorf("Node %s was harmed: %v", node.Name, fresh)
	}
}

// sleeps checks that a Machine is not reconciled for a while: it waits for an event and does not poll. On a busy computer the events of
// the last write come back late, so there is a second and a third look.
func (s *scene) sleeps(m *unstructured.Unstructured) {
	s.t.Helper()
	key := client.ObjectKeyFromObject(m)
	time.Sleep(300 * time.Millisecond) // the events of the last write come back
	first := s.passes.of(key)
	before := first
	for range 3 {
		time.Sleep(1200 * time.Millisecond)
		after := s.passes.of(key)
		if after == before {
			return
		}
		before = after
	}
	s.t.Errorf("%s was looked at %d times while nothing happened", key, before-first)
}

// ends deletes Machines and waits until they are gone.
func (s *scene) ends(machines ...*unstructured.Unstructured) {
	s.t.Helper()
	for _, m := range machines {
		require.NoError(s.t, s.client.Delete(s.t.Context(), m))
	}
	for _, m := range machines {
		s.gone(m)
	}
}

// passes counts how often a reconciler looked at each Machine. Safe for concurrent use.
type passes struct {
	mu  sync.Mutex
	all map[types.NamespacedName]int
}

func (p *passes) of(key types.NamespacedName) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[key]
}

func (p *passes) count(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[key]++
}
