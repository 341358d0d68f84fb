package machine_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
)

func TestAMachineDeletedBeforeItsNodeWasKnownTakesItAlong(t *testing.T) {
	w := byHandWorld(t, atOnce)
	early := w.machineWith("early", fake.WithAnnotations(map[string]string{contract.ExcludeDrain: ""})) // that takes its time
	late := w.machineWith("late")
	for _, m := range []*unstructured.Unstructured{early, late} {
		w.conditionIs(m, contract.ConditionInfrastructureReady, contract.ReasonNotReady)
	}
	hold := func(name string, finalizers ...string) {
		w.merge(fake.InfraMachine(contract.V1Beta2, name), map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	}
	made := func(name string) { // the instance is there, and was never reported as provisioned
		w.merge(fake.InfraMachine(contract.V1Beta2, name), map[string]any{"spec": map[string]any{"providerID": "fake://x/" + name}})
	}
	hold("early", "example.com/hold")
	hold("late", "example.com/hold")
	made("early")
	w.Create(fake.Node("n-early", "fake://x/early"), fake.Node("another", "fake://x/another"))
	for _, m := range []*unstructured.Unstructured{early, late} {
		w.Delete(m)
		w.Until("the deletion of the infrastructure", func() bool {
			return w.Get(fake.InfraMachine(contract.V1Beta2, m.GetName())).GetDeletionTimestamp() != nil
		})
	}
	w.Eventually("the Node to be known", func() string { return diffOf("n-early", nodeNameOf(w.Get(early))) })
	hold("early", []string{}...)
	w.Gone(early)
	require.Nil(t, w.node("n-early"))
	require.NotNil(t, w.node("another"))

	t.Log("its Node joins while its machine is on the way out")
	made("late")
	w.Eventually("the provider ID", func() string { return diffOf("fake://x/late", providerIDOf(w.Get(late))) })
	w.Create(fake.Node("n-late", "fake://x/late"))
	w.Eventually("the Node to be known", func() string { return diffOf("n-late", nodeNameOf(w.Get(late))) })
	hold("late", []string{}...)
	w.Gone(late)
	require.Nil(t, w.node("n-late"))
}

func nodeNameOf(m *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	return name
}

func diffOf(want, got string) string {
	if want == got {
		return ""
	}
	return "want " + want + ", got " + got
}

func TestANodeThatDoesNotGoIsAskedOnceAndWaitedForAsLongAsItsLimit(t *testing.T) {
	w := newWorld(t, worldOptions{machine: atOnce})
	seconds := func(n int64) fake.Option {
		return fake.WithField(n, "spec", "deletion", "nodeDeletionTimeoutSeconds")
	}
	stuck, limited, refused := w.machineWith("stuck", seconds(0)), w.machineWith("limited", seconds(1)), w.machineWith("refused", seconds(1))
	for _, m := range []*unstructured.Unstructured{stuck, limited, refused} {
		w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	}
	node := schema.GroupKind{Kind: "Node"}
	for _, name := range []string{"stuck", "limited"} {
		held := w.node(name)
		base := client.MergeFrom(held.DeepCopy())
		held.Finalizers = []string{"example.com/hold"}
		require.NoError(t, w.client.Patch(t.Context(), held, base))
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "refused", errors.New("not yours"))
	w.store.Inject(fake.Fault{Match: fake.Match("delete", node, "refused"), Err: forbidden, Times: -1})
	for _, m := range []*unstructured.Unstructured{stuck, limited, refused} {
		w.Delete(m)
	}
	w.Gone(limited, refused)
	require.NotNil(t, w.node("limited"))
	require.NotNil(t, w.node("refused"))
	w.conditionIs(stuck, contract.ConditionDeleting, contract.ReasonDeletingNode)
	for _, name := range []string{"stuck", "limited"} {
		require.Equal(t, 1, w.store.CountRequests(func(r fake.Request) bool {
			return fake.Match("delete", node, name)(r) && r.UserAgent == userAgent && r.Code == http.StatusOK
		}), "the Node was asked to go once: no worker waits for it")
	}
	notes := map[string]int{}
	for _, e := range w.recorded(machine.EventNodeDeletionFailed, 2) {
		notes[e.Regarding.Name]++
		require.Contains(t, e.Note, "not completed within 1s")
		if e.Regarding.Name == "refused" {
			require.Contains(t, e.Note, "not yours")
		}
	}
	require.Empty(t, cmp.Diff(map[string]int{"limited": 1, "refused": 1}, notes), "events")
	held := w.node("stuck")
	base := client.MergeFrom(held.DeepCopy())
	held.Finalizers = nil
	require.NoError(t, w.client.Patch(t.Context(), held, base))
	w.Gone(stuck)
}

// writesMachine reports whether a request wrote a Machine itself, as the last one of a deletion does.
func writesMachine(r fake.Request) bool {
	return r.UserAgent == userAgent && fake.Match("patch", fake.MachineGVK().GroupKind(), "")(r) && r.Subresource == "" &&
		r.Code == http.StatusOK
}

func TestADeletionMakesFewRequests(t *testing.T) {
	// However slow this test is, no stage lasts for as long as it would have to, to be worth a status.
	w := newWorld(t, worldOptions{machine: machine.Options{Options: pass.Options{StatusDelay: time.Minute}}})
	w.oneWasDeleted()
	m := w.ready("m")
	w.isQuiet()
	w.Remove(m)
	requests := w.store.Requests()
	for len(requests) > 0 && !writesMachine(requests[len(requests)-1]) { // of a pass whose cache does not know yet that its Machine is gone
		requests = requests[:len(requests)-1]
	}
	counts := map[string]int{}
	for _, r := range requests {
		if r.UserAgent != userAgent || r.Verb == "watch" || r.GVK.Kind == "Event" { // the recorder sends them when it suits it
			continue
		}
		name := r.Verb + " " + r.GVK.Kind
		if r.Subresource != "" {
			name += "/" + r.Subresource
		}
		counts[name]++
	}
	t.Logf("requests: %v", counts)
	// One status says that the drain began. How the drain stands is written too when it takes longer than it does here.
	if n := counts["patch Machine/status"]; n < 1 || n > 2 {
		t.Errorf("want the start of the drain to be written, and little else of the status: %d writes", n)
	}
	// A Node is cordoned in each pass until it is shown cordoned: usually one.
	if n := counts["patch Node"]; n < 1 || n > 4 {
		t.Errorf("want the Node to be cordoned once, or again while it is not shown cordoned: %d writes", n)
	}
	delete(counts, "patch Machine/status")
	delete(counts, "patch Node")
	want := map[string]int{
		"delete FakeMachine": 1, "get FakeMachine": 1, "delete FakeConfig": 1, "get FakeConfig": 1, "delete Node": 1,
		"patch Machine": 2, // the record of the drain, and the finalizer
	}
	w.recorded(machine.EventNodeDrained, 2)
	for _, event := range []string{machine.EventVolumesDetached, machine.EventNodeNotDrained, machine.EventNodeNotDeleted} {
		require.Empty(t, w.Events(event), event)
	}
	require.Empty(t, cmp.Diff(want, counts), "requests")
}

func TestANodeThatIsNotDrainedHasOneEventUntilTheDeletionEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options            []fake.Option
		view               func(*external.ClusterView)
		reason, kind, says string
	}{
		"a Cluster without control plane Machines": {
			view:   func(v *external.ClusterView) { v.ActiveControlPlaneMachines = contract.Some(0) },
			reason: machine.EventNodeNotDrained, kind: corev1.EventTypeWarning,
			says: "Node m is neither drained nor deleted: no control plane members",
		},
		"a Cluster that goes": {
			view:   func(v *external.ClusterView) { v.State.Deleting = time.Now() },
			reason: machine.EventNodeNotDrained, kind: corev1.EventTypeNormal,
			says: "Node m is neither drained nor deleted: the Cluster is being deleted",
		},
		"a Machine that asks for it": {
			options: []fake.Option{fake.WithAnnotations(map[string]string{contract.ExcludeDrain: ""})},
			view:    func(*external.ClusterView) {},
			reason:  machine.EventNodeNotDrained, kind: corev1.EventTypeNormal,
			says: "Node m is not drained: the Machine has the annotation " + contract.ExcludeDrain,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var v views
			w := newWorld(t, worldOptions{machine: atOnce, ports: v.ports(), noCRDs: true, before: providersByHand})
			m := w.provisioned("m", "fake://x/m", append(tc.options, inCluster("c"))...)
			w.setConfig("m", dataCreated("m"))
			w.Create(fake.Node("m", "fake://x/m"))
			w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
			v.set("c", tc.view)
			infra := fake.InfraMachine(contract.V1Beta2, "m")
			w.merge(infra, map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/hold"}}})
			w.Delete(m)
			require.Equal(t, "Waiting for FakeMachine m to be deleted",
				w.conditionIs(m, contract.ConditionDeleting, contract.ReasonWaitingForInfrastructureDeletion))
			told := w.recorded(tc.reason, 1)[0]
			require.Equal(t, []string{tc.kind, tc.says}, []string{told.Type, told.Note})
			w.isQuiet()
			w.merge(infra, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})
			w.Gone(m)
			require.Len(t, w.Events(tc.reason), 1)
			require.Empty(t, w.Events(machine.EventNodeNotDeleted))
		})
	}
}

func TestANodeThatDoesNotGoInTimeIsReportedWhileOthersHoldTheMachine(t *testing.T) {
	w := byHandWorld(t, atOnce)
	m := w.runningByHand("m", "fake://x/m")
	hold := map[string]any{"finalizers": []string{contract.MachineFinalizer, "example.com/hold"}}
	w.merge(m, map[string]any{"metadata": hold, "spec": map[string]any{"deletion": map[string]any{"nodeDeletionTimeoutSeconds": 1}}})
	node := w.node("m")
	node.Finalizers = []string{"example.com/hold"}
	require.NoError(t, w.client.Update(t.Context(), node))
	w.Delete(m)
	w.conditionIs(m, contract.ConditionDeleting, contract.ReasonDeletionCompleted, "Deletion completed")
	require.Contains(t, w.recorded(machine.EventNodeDeletionFailed, 1)[0].Note, "not completed within 1s: the Machine continues without")
	w.isQuiet()
	w.merge(m, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})
	w.Gone(m)
	require.NotNil(t, w.node("m"), "others hold it")
}
