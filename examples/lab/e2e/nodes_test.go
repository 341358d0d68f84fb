//go:build e2e

package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/propagate"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The scenarios run side by side, as Machines of several teams do.
func TestNodesAreMatchedAndNeverHarmedOnARealControlPlane(t *testing.T) {
	w := newBareWorld(t, shared(t))
	seen := &passes{all: map[types.NamespacedName]int{}}
	steps := machine.Steps().InsertBefore(machine.StepPaused, machine.Step{
		Name: "count", On: pass.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
			seen.count(s.State.Key)
			return machine.Result{}, nil
		},
	})
	w.startReconciler(machineKind(), machine.Options{Steps: steps, Options: pass.Options{StatusDelay: 300 * time.Millisecond}}, &warnings{})
	for name, run := range map[string]func(*scene){
		"the Machine that recorded a Node keeps it":                            keepsItsNode,
		"a Node that two Machines claim has no Machine until one is corrected": correctedClaim,
		"a Node that two Machines claim has no Machine until one is deleted":   deletedClaim,
		"a Node that registers again is adopted again":                         registersAgain,
		"a Node that registered again is recorded before it goes":              recordedFirst,
		"a Node's provider ID appears late":                                    lateOnTheNode,
		"an InfraMachine's provider ID appears late":                           lateOnTheInfrastructure,
		"an InfraMachine's provider ID changes":                                changedProviderID,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(newScene(t, w, seen))
		})
	}
}

func keepsItsNode(s *scene) {
	id := s.id("1")
	first := s.provisioned("first", id)
	node := s.join("n", id)
	s.has(first, node)

	var second *unstructured.Unstructured
	s.untouched(node, func() {
		second = s.provisioned("second", id)
		for _, kind := range []string{contract.ConditionNodeReady, machine.ConditionNodeHealthy} {
			s.says(second, kind, contract.ReasonNodeClaimed, "Node "+node.Name+" is not touched", "Machine "+s.name+"/first",
				"this Machine "+s.name+"/second", id, "correct or delete those that are wrong")
		}
		s.says(first, contract.ConditionNodeReady, machine.ReasonNodeReady)
		require.Empty(s.t, s.state(second).Node)
		s.sleeps(second)

		s.t.Log("its deletion waits: the instance may be the first one's")
		require.NoError(s.t, s.client.Delete(s.t.Context(), second))
		s.says(second, contract.ConditionDeleting, contract.ReasonDrainingNode, s.name+"/first", contract.ExcludeDrain)
		infra := s.get(fake.InfraMachine(contract.V1Beta2, "second", fake.InNamespace(s.name)))
		require.Nil(s.t, infra.GetDeletionTimestamp())

		s.t.Log("a person lets it go as the condition says")
		s.annotate(second, contract.ExcludeDrain)
		s.gone(second, infra)
		s.has(first, node)
	})
	s.ends(first)
	s.gone(node)
}

func correctedClaim(s *scene) {
	id, right := s.id("1"), s.id("2")
	a, b := s.provisioned("a", id), s.provisioned("b", id)
	node := s.contested(id, a, b)
	s.reports("b", right)
	s.has(a, node)
	s.says(b, contract.ConditionNodeReady, contract.ReasonInspectionFailed, "Waiting for a Node with spec.providerID "+right)
	s.ends(b)
	s.has(a, node)
	s.ends(a)
	s.gone(node)
}

func deletedClaim(s *scene) {
	id := s.id("1")
	a, b := s.provisioned("a", id), s.provisioned("b", id)
	node := s.contested(id, a, b)
	s.untouched(node, func() {
		require.NoError(s.t, s.client.Delete(s.t.Context(), b))
		s.says(b, contract.ConditionDeleting, contract.ReasonDrainingNode, s.name+"/a", s.name+"/b", contract.ExcludeDrain)
		s.says(a, contract.ConditionNodeReady, contract.ReasonNodeClaimed, s.name+"/b")
		s.sleeps(b)
	})
	s.annotate(b, contract.ExcludeDrain)
	s.gone(b)
	s.has(a, node)
	s.ends(a)
	s.gone(node)
}

// contested lets a Node join that two Machines name, and waits until both say so.
func (s *scene) contested(id string, a, b *unstructured.Unstructured) *corev1.Node {
	s.t.Helper()
	node := s.join("n", id)
	s.untouched(node, func() {
		for _, m := range []*unstructured.Unstructured{a, b} {
			s.says(m, contract.ConditionNodeReady, contract.ReasonNodeClaimed, "Node "+node.Name+" is not touched", s.name+"/a", s.name+"/b",
				id, "correct or delete those that are wrong")
			require.Empty(s.t, s.state(m).Node)
		}
		s.eventually("the Node to be Ready", func() string {
			if fresh := s.node(node); !isReady(fresh) {
				return fresh.String()
			}
			return ""
		})
	})
	fresh := s.node(node)
	require.Empty(s.t, fresh.Annotations[propagate.MachineAnnotation])
	require.True(s.t, isUninitialized(fresh))
	return node
}

func registersAgain(s *scene) {
	id := s.id("1")
	m := s.provisioned("m", id)
	before := s.join("n", id)
	s.has(m, before)
	require.NoError(s.t, s.client.Delete(s.t.Context(), before))
	s.says(m, contract.ConditionNodeReady, machine.ReasonNodeDeleted, "Node "+before.Name+" has been deleted while the Machine still exists")
	require.Equal(s.t, before.UID, s.state(m).Node.UID, "the reference stays until there is another Node")
	s.sleeps(m)

	after := s.join("n", id)
	require.NotEqual(s.t, before.UID, after.UID)
	s.has(m, after)
	s.ends(m)
	s.gone(after)
}

// recordedFirst deletes the Machine before it has seen that its Node is another one, which only a pause can bring about for
// certain.
func recordedFirst(s *scene) {
	id := s.id("1")
	m := s.provisioned("m", id)
	before := s.join("n", id)
	s.has(m, before)
	s.annotate(m, contract.PausedAnnotation)
	s.says(m, contract.ConditionPaused, contract.ReasonPaused)
	require.NoError(s.t, s.client.Delete(s.t.Context(), before))
	after := s.join("n", id)
	seen := s.recordEnd(m)
	s.untouched(after, func() {
		require.NoError(s.t, s.client.Delete(s.t.Context(), m))
		time.Sleep(time.Second)
	})
	require.Equal(s.t, before.UID, s.state(m).Node.UID)
	unpause := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+contract.PausedAnnotation+`":null}}}`))
	require.NoError(s.t, s.client.Patch(s.t.Context(), m.DeepCopy(), unpause))
	s.gone(m, after)
	s.eventually("the events of the end", func() string { return map[bool]string{false: "one is late"}[seen.ended(m, after)] })
	seen.check(s.t, after)
}

func lateOnTheNode(s *scene) {
	id := s.id("1")
	node := s.join("n", "")
	m := s.machine("m")
	s.says(m, contract.ConditionNodeReady, contract.ReasonInspectionFailed, "Waiting for FakeMachine to report spec.providerID")
	s.untouched(node, func() {
		s.reports("m", id)
		s.says(m, contract.ConditionNodeReady, contract.ReasonInspectionFailed, "Waiting for a Node with spec.providerID "+id+" to exist")
		s.sleeps(m)
	})
	s.names(node, id)
	s.has(m, node)
	s.ends(m)
	s.gone(node)
}

func lateOnTheInfrastructure(s *scene) {
	id := s.id("1")
	node := s.join("n", "")
	m := s.machine("m")
	s.untouched(node, func() {
		s.says(m, contract.ConditionNodeReady, contract.ReasonInspectionFailed, "Waiting for FakeMachine to report spec.providerID")
		s.names(node, id)
		s.sleeps(m)
		s.says(m, contract.ConditionNodeReady, contract.ReasonInspectionFailed, "Waiting for FakeMachine to report spec.providerID")
	})
	s.reports("m", id)
	s.has(m, node)
	s.ends(m)
	s.gone(node)
}

// names gives a Node its provider ID, as a cloud controller manager does.
func (s *scene) names(node *corev1.Node, id string) {
	s.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"providerID":"`+id+`"}}`))
	require.NoError(s.t, s.client.Patch(s.t.Context(), node.DeepCopy(), patch))
}

func changedProviderID(s *scene) {
	was, is := s.id("1"), s.id("2")
	m := s.provisioned("m", was)
	before := s.join("before", was)
	s.has(m, before)
	s.untouched(before, func() {
		s.reports("m", is)
		for _, kind := range []string{contract.ConditionNodeReady, machine.ConditionNodeHealthy} {
			s.says(m, kind, machine.ReasonNodeDeleted, "Node "+before.Name, was, is, "correct that if it is wrong")
		}
		s.knows(m, is)
		s.sleeps(m)

		s.t.Log("the reference follows")
		after := s.join("after", is)
		s.has(m, after)
		s.ends(m)
		s.gone(after)
	})
	require.NoError(s.t, s.client.Delete(s.t.Context(), before))
}

func (s *scene) annotate(m *unstructured.Unstructured, key string) {
	s.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+key+`":""}}}`))
	require.NoError(s.t, s.client.Patch(s.t.Context(), m.DeepCopy(), patch))
}
