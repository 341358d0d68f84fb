package machine_test

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/propagate"
)

func TestAMachineReachesRunningAndIsCleanedUp(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1", fake.WithLabels(map[string]string{
		"node-role.kubernetes.io/worker": "", "gpu.node.cluster.x-k8s.io/model": "a100", "team": "blue"}))
	w.reaches(m, "Running")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	w.isQuiet()

	fresh := w.Get(m)
	infra := w.Get(fake.InfraMachine(contract.V1Beta2, "m1"))
	id := fake.ProviderID(infra)
	for path, want := range map[string]string{
		"spec.providerID": id, "status.nodeRef.name": "m1", "spec.bootstrap.dataSecretName": "m1", "status.phase": "Running",
	} {
		got, _, err := contract.At[string](strings.Split(path, ".")...).Get(fresh.Object)
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
	addresses, _, err := contract.At[[]contract.Address]("status", "addresses").Get(fresh.Object)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]contract.Address{{Type: "Hostname", Address: "m1"}, {Type: "InternalIP", Address: "10.0.0.1"}}, addresses))
	node := w.node("m1")
	require.Equal(t, string(node.UID), fresh.GetAnnotations()[contract.NodeUIDAnnotation])
	labels := maps.Clone(node.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return key == "kubernetes.io/hostname" })
	require.Empty(t, cmp.Diff(map[string]string{"node-role.kubernetes.io/worker": "", "gpu.node.cluster.x-k8s.io/model": "a100"}, labels))
	for _, taint := range node.Spec.Taints {
		if taint.Key == propagate.UninitializedTaintKey {
			t.Error("the Node is still tainted as uninitialized")
		}
	}
	for _, obj := range []*unstructured.Unstructured{infra, w.Get(fake.BootstrapConfig(contract.V1Beta2, "m1"))} {
		owner := metav1.GetControllerOf(obj)
		require.False(t, owner == nil || owner.UID != m.GetUID() || obj.GetLabels()[contract.ClusterNameLabel] != "demo")
	}

	w.Delete(m)
	w.Gone(m, infra, fake.BootstrapConfig(contract.V1Beta2, "m1"))
	require.Nil(t, w.node("m1"), "the Node is still there")
}

func (w *world) expires(m *unstructured.Unstructured, want string) {
	w.t.Helper()
	w.Until("certificates that end at "+want, func() bool {
		got, _, _ := unstructured.NestedString(w.Get(m).Object, "status", "certificatesExpiryDate")
		return got == want
	})
}

func TestAnUnreadableEndOfCertificatesIsAConditionAndNoLoop(t *testing.T) {
	w := newWorld(t, worldOptions{})
	annotate := func(obj *unstructured.Unstructured, value string) {
		w.Change(obj, fake.WithAnnotations(map[string]string{contract.CertificatesExpiryAnnotation: value}))
	}
	m := w.machineWith("m1", fake.WithLabels(map[string]string{contract.ControlPlaneLabel: ""}))
	worker := w.machineWith("m2", fake.WithAnnotations(map[string]string{contract.CertificatesExpiryAnnotation: "never"}))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	config := fake.BootstrapConfig(contract.V1Beta2, "m1")
	annotate(config, "2027-01-31T12:00:00Z")
	w.expires(m, "2027-01-31T12:00:00Z")
	annotate(m, "2028-01-31T12:00:00Z")
	w.expires(m, "2028-01-31T12:00:00Z")

	annotate(m, "soon")
	w.isQuiet()
	w.expires(m, "2028-01-31T12:00:00Z")
	require.Equal(t, contract.ReasonReady, conditionOf(w.Get(m), contract.ConditionReady).Reason)

	w.Change(m, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations", contract.CertificatesExpiryAnnotation)
	})
	w.expires(m, "2027-01-31T12:00:00Z")
	w.Change(config, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{}) })
	w.expires(m, "")
	w.conditionIs(worker, contract.ConditionReady, contract.ReasonReady)
	w.expires(worker, "")
	w.Remove(m)
}

func TestAMachineOfAnotherControllerIsLeftAloneCompletely(t *testing.T) {
	var seen passes
	w := newWorld(t, worldOptions{clusters: true, machine: machine.Options{
		Steps: watching(t, &seen), Options: pass.Options{WatchFilter: "ours"},
	}})
	cluster := w.cluster("demo")
	labelled := func(value string) fake.Option {
		return fake.WithLabels(map[string]string{contract.WatchFilterLabel: value})
	}
	ours := w.machineWith("ours", labelled("ours"))
	theirs, nobodys := w.machineWith("theirs", labelled("theirs")), w.machineWith("nobodys")
	w.conditionIs(ours, contract.ConditionReady, contract.ReasonReady)
	// None of these events is for them.
	w.Change(cluster, fake.WithField("x", "spec", "controlPlaneRef", "name"))
	w.Change(fake.InfraMachine(contract.V1Beta2, "theirs"), labelled("anything"))
	w.Change(theirs, fake.WithField(w.node("ours").Spec.ProviderID, "spec", "providerID"))
	w.Delete(fake.InfraMachine(contract.V1Beta2, "nobodys"))
	w.isQuiet()
	for _, m := range []*unstructured.Unstructured{theirs, nobodys} {
		seen.mu.Lock()
		_, looked := seen.last[m.GetName()]
		seen.mu.Unlock()
		require.False(t, looked || len(w.Get(m).GetFinalizers()) > 0 || describe(w.Get(m)) != "", "%s was touched", m.GetName())
	}
	// Handing a Machine over is a matter of its label.
	w.Create(fake.InfraMachine(contract.V1Beta2, "nobodys"))
	w.Change(nobodys, labelled("ours"))
	w.conditionIs(nobodys, contract.ConditionReady, contract.ReasonReady)
}

// Edge-case matrix: "Machine deleted before finalizer patch landed".
func TestAMachineDeletedBeforeItsFinalizerLandedVanishesAndHasTouchedNothing(t *testing.T) {
	w := newWorld(t, worldOptions{before: func(w *world) {
		w.store.Inject(fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
			return r.UserAgent == userAgent && r.Verb == "patch" && r.GVK.Kind == "Machine"
		}})
	}})
	m := w.machineWith("m1")
	w.Until("an attempt to write the finalizer", func() bool { return w.writes()["Machine"] != 0 })
	w.Remove(m)
	w.isQuiet()
	for _, obj := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1")} {
		if fresh := w.Get(obj); fresh == nil || len(fresh.GetOwnerReferences()) > 0 {
			t.Errorf("%s was taken on by a Machine that nothing would have kept", obj.GetKind())
		}
	}
}

// byHandWorld has the CRDs of providers, and no provider: the test reports machines itself.
func byHandWorld(t *testing.T, o machine.Options) *world {
	t.Helper()
	return newWorld(t, worldOptions{noCRDs: true, machine: o, before: providersByHand})
}

func (w *world) provisioned(name, providerID string, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	m := w.machineWith(name, options...)
	w.setInfra(name, map[string]any{"initialization": map[string]any{"provisioned": true}}, providerID)
	return m
}

func TestTwoMachinesWithOneProviderIDNeverShareANode(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	first := w.provisioned("first", "fake://x/1")
	w.Create(fake.Node("n", "fake://x/1"))
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
	require.Equal(t, machine.ReasonNodeReady, conditionOf(w.Get(first), contract.ConditionNodeReady).Reason)
	w.isQuiet()

	t.Log("it does not drain it either, nor delete its infrastructure under the first")
	w.Delete(second)
	message := w.conditionIs(second, contract.ConditionDeleting, contract.ReasonDrainingNode)
	require.Contains(t, message, contract.ExcludeDrain)
	require.False(t, w.node("n").Spec.Unschedulable)
	require.Nil(t, w.Get(fake.InfraMachine(contract.V1Beta2, "second")).GetDeletionTimestamp())

	t.Log("when the first has taken the Node with it, nothing holds the second")
	w.Delete(first)
	w.Gone(first, second)
	require.Nil(t, w.node("n"))
}

func TestANodeThatTwoMachinesNameFromTheStartIsLeftAloneUntilOneIsCorrected(t *testing.T) {
	w := byHandWorld(t, machine.Options{})
	named := fake.WithField("fake://x/1", "spec", "providerID")
	a, b := w.provisioned("a", "fake://x/1", named), w.provisioned("b", "fake://x/1", named)
	for _, m := range []*unstructured.Unstructured{a, b} { // what says that it waits for the Node has been read, with its ID
		w.Until("a pass", func() bool { return conditionOf(w.Get(m), contract.ConditionNodeReady).Type != "" })
	}
	w.Create(fake.Node("n", "fake://x/1"))
	for _, m := range []*unstructured.Unstructured{a, b} {
		w.conditionIs(m, contract.ConditionNodeReady, contract.ReasonNodeClaimed)
	}
	require.Empty(t, w.node("n").Annotations[propagate.MachineAnnotation])

	w.setInfra("b", map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/2")
	w.conditionIs(a, contract.ConditionNodeReady, machine.ReasonNodeReady)
	w.conditionIs(b, contract.ConditionNodeReady, contract.ReasonInspectionFailed)
	w.Until("the Node to be a's", func() bool { return w.node("n").Annotations[propagate.MachineAnnotation] == "a" })
}

func TestOptionsSayWhatMatchesAndWhatIsHandedDown(t *testing.T) {
	policy := propagate.ClusterAPI()
	policy.Labels = append(policy.Labels, regexp.MustCompile("^team$"))
	w := byHandWorld(t, machine.Options{Matching: noderef.Rules{Canonical: strings.ToLower}, Propagation: policy})
	const uuid = "4212a3f0-0bd6-4e0f-a2a1-0f2f2be8f9ab"
	m := fake.Machine("m", fake.WithLabels(map[string]string{"team": "blue"}), fake.WithField([]any{
		map[string]any{"key": "gpu", "value": "yes", "effect": "NoSchedule", "propagation": "Always"},
		map[string]any{"key": "warm-up", "effect": "NoSchedule", "propagation": "OnInitialization"},
	}, "spec", "taints"))
	w.Create(fake.BootstrapConfig(contract.V1Beta2, "m"), fake.InfraMachine(contract.V1Beta2, "m"), m)
	w.setInfra("m", map[string]any{"initialization": map[string]any{"provisioned": true}, "interruptible": true}, "vsphere://"+uuid)
	w.Create(fake.Node("n", "vsphere://"+strings.ToUpper(uuid)))
	w.conditionIs(m, contract.ConditionNodeReady, machine.ReasonNodeReady)
	w.Until("labels and taints", func() bool {
		n := w.node("n")
		_, spot := n.Labels[propagate.InterruptibleLabel]
		return n.Labels["team"] == "blue" && spot && len(n.Spec.Taints) == 2 && n.Spec.Taints[0].Value == "yes"
	})

	t.Log("a taint for new Nodes is not given again, a lasting one comes back")
	n := w.node("n")
	n.Spec.Taints = nil
	require.NoError(t, w.client.Update(t.Context(), n))
	w.Until("the lasting taint", func() bool {
		taints := w.node("n").Spec.Taints
		return len(taints) == 1 && taints[0].Key == "gpu"
	})
	w.isQuiet()
}
