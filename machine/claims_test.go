package machine_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

// byHandWorld has the CRDs of providers, and no provider: the test reports machines itself.
func byHandWorld(t *testing.T, o machine.Options) *world {
	t.Helper()
	return newWorld(t, worldOptions{noCRDs: true, machine: o, before: func(w *world) {
		w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
		w.create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
	}})
}

func (w *world) provisioned(name, providerID string, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	m := w.machineWith(name, options...)
	w.setInfra(name, map[string]any{"initialization": map[string]any{"provisioned": true}}, providerID)
	return m
}

func TestTwoMachinesWithOneProviderIDNeverShareANode(t *testing.T) {
	t.Parallel()
	w := byHandWorld(t, machine.Options{})
	first := w.provisioned("first", "fake://x/1")
	w.create(fake.Node("n", "fake://x/1"))
	w.conditionIs(first, contract.ConditionNodeReady, machine.ReasonNodeReady)

	t.Log("the second to come does not get it")
	second := w.provisioned("second", "fake://x/1")
	for _, kind := range []string{contract.ConditionNodeReady, machine.ConditionNodeHealthy} {
		message := w.conditionIs(second, kind, contract.ReasonNodeClaimed)
		for _, name := range []string{"default/first", "default/second", "Node n", "fake://x/1"} {
			require.Contains(t, message, name)
		}
	}
	require.Equal(t, "first", w.node("n").Annotations[propagate.MachineAnnotation])
	require.Equal(t, machine.ReasonNodeReady, conditionOf(w.get(first), contract.ConditionNodeReady).Reason)
	w.isQuiet()

	t.Log("it does not drain it either, nor delete its infrastructure under the first")
	require.NoError(t, w.client.Delete(t.Context(), second))
	message := w.conditionIs(second, contract.ConditionDeleting, contract.ReasonDrainingNode)
	require.Contains(t, message, contract.ExcludeDrain)
	require.False(t, w.node("n").Spec.Unschedulable)
	require.Nil(t, w.get(fake.InfraMachine(contract.V1Beta2, "second")).GetDeletionTimestamp())

	t.Log("when the first has taken the Node with it, nothing holds the second")
	require.NoError(t, w.client.Delete(t.Context(), first))
	w.goes(first, second)
	require.Nil(t, w.node("n"))
}

func TestANodeThatTwoMachinesNameFromTheStartIsLeftAloneUntilOneIsCorrected(t *testing.T) {
	t.Parallel()
	w := byHandWorld(t, machine.Options{})
	named := fake.WithField("fake://x/1", "spec", "providerID")
	a, b := w.provisioned("a", "fake://x/1", named), w.provisioned("b", "fake://x/1", named)
	for _, m := range []*unstructured.Unstructured{a, b} { // what says that it waits for the Node has been read, with its ID
		w.eventually("a pass", func() string {
			if c := conditionOf(w.get(m), contract.ConditionNodeReady); c.Type == "" {
				return "not yet"
			}
			return ""
		})
	}
	w.create(fake.Node("n", "fake://x/1"))
	for _, m := range []*unstructured.Unstructured{a, b} {
		w.conditionIs(m, contract.ConditionNodeReady, contract.ReasonNodeClaimed)
	}
	require.Empty(t, w.node("n").Annotations[propagate.MachineAnnotation])

	w.setInfra("b", map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/2")
	w.conditionIs(a, contract.ConditionNodeReady, machine.ReasonNodeReady)
	w.conditionIs(b, contract.ConditionNodeReady, contract.ReasonInspectionFailed)
	w.eventually("the Node to be a's", func() string {
		if w.node("n").Annotations[propagate.MachineAnnotation] != "a" {
			return "it is not"
		}
		return ""
	})
}

func TestOptionsSayWhatMatchesAndWhatIsHandedDown(t *testing.T) {
	t.Parallel()
	policy := propagate.ClusterAPI()
	policy.Labels = append(policy.Labels, regexp.MustCompile("^team$"))
	w := byHandWorld(t, machine.Options{
		Matching: noderef.Rules{Canonical: strings.ToLower}, Propagation: policy,
	})
	const uuid = "4212a3f0-0bd6-4e0f-a2a1-0f2f2be8f9ab"
	m := fake.Machine("m", fake.WithLabels(map[string]string{"team": "blue"}), fake.WithField([]any{
		map[string]any{"key": "gpu", "value": "yes", "effect": "NoSchedule", "propagation": "Always"},
		map[string]any{"key": "warm-up", "effect": "NoSchedule", "propagation": "OnInitialization"},
	}, "spec", "taints"))
	w.create(fake.BootstrapConfig(contract.V1Beta2, "m"), fake.InfraMachine(contract.V1Beta2, "m"), m)
	w.setInfra("m", map[string]any{"initialization": map[string]any{"provisioned": true}, "interruptible": true}, "vsphere://"+uuid)
	w.create(fake.Node("n", "vsphere://"+strings.ToUpper(uuid)))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeReady)
	w.eventually("labels and taints", func() string {
		n := w.node("n")
		_, spot := n.Labels[propagate.InterruptibleLabel]
		if n.Labels["team"] != "blue" || !spot || len(n.Spec.Taints) != 2 || n.Spec.Taints[0].Value != "yes" {
			return n.String()
		}
		return ""
	})

	t.Log("a taint for new Nodes is not given again, a lasting one comes back")
	n := w.node("n")
	n.Spec.Taints = nil
	require.NoError(t, w.client.Update(t.Context(), n))
	w.eventually("the lasting taint", func() string {
		if taints := w.node("n").Spec.Taints; len(taints) != 1 || taints[0].Key != "gpu" {
			return w.node("n").String()
		}
		return ""
	})
	w.isQuiet()
}
