package machine_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

func TestAMachineDeletedBeforeItsNodeWasKnownTakesItAlong(t *testing.T) {
	t.Parallel()
	w := byHandWorld(t, atOnce)
	early := w.machineWith("early", fake.WithAnnotations(map[string]string{contract.ExcludeDrain: ""})) // that takes its time
	late := w.machineWith("late")
	for _, m := range []*unstructured.Unstructured{early, late} {
		w.conditionIs(m, machine.ConditionInfrastructureReady, machine.ReasonNotReady)
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
	w.create(fake.Node("n-early", "fake://x/early"), fake.Node("another", "fake://x/another"))
	for _, m := range []*unstructured.Unstructured{early, late} {
		require.NoError(t, w.client.Delete(t.Context(), m))
		w.eventually("the deletion of the infrastructure", func() string {
			if w.get(fake.InfraMachine(contract.V1Beta2, m.GetName())).GetDeletionTimestamp() == nil {
				return "it was not asked for"
			}
			return ""
		})
	}
	hold("early", []string{}...)
	w.goes(early)
	require.Nil(t, w.node("n-early"))
	require.NotNil(t, w.node("another"))

	t.Log("its Node joins while its machine is on the way out")
	made("late")
	w.eventually("the provider ID", func() string { return diffOf("fake://x/late", providerIDOf(w.get(late))) })
	w.create(fake.Node("n-late", "fake://x/late"))
	w.eventually("the Node to be known", func() string { return diffOf("n-late", nodeNameOf(w.get(late))) })
	hold("late", []string{}...)
	w.goes(late)
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
	t.Parallel()
	w := newWorld(t, worldOptions{machine: atOnce})
	seconds := func(n int64) fake.Option {
		return fake.WithField(n, "spec", "deletion", "nodeDeletionTimeoutSeconds")
	}
	stuck, limited, refused := w.machineWith("stuck", seconds(0)), w.machineWith("limited", seconds(1)), w.machineWith("refused", seconds(1))
	for _, m := range []*unstructured.Unstructured{stuck, limited, refused} {
		w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
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
		require.NoError(t, w.client.Delete(t.Context(), m))
	}
	w.goes(limited, refused)
	require.NotNil(t, w.node("limited"))
	require.NotNil(t, w.node("refused"))
	w.conditionIs(stuck, machine.ConditionDeleting, machine.ReasonDeletingNode)
	for _, name := range []string{"stuck", "limited"} {
		require.Equal(t, 1, w.store.CountRequests(func(r fake.Request) bool {
			return fake.Match("delete", node, name)(r) && r.UserAgent == userAgent && r.Code == http.StatusOK
		}), "the Node was asked to go once: nobody waits in a worker for it")
	}
	notes := map[string]int{}
	for _, e := range w.recorded(machine.EventNodeDeletionFailed, 2) {
		notes[e.Regarding.Name]++
		require.Contains(t, e.Note, "not completed within 1s")
		if e.Regarding.Name == "refused" {
			require.Contains(t, e.Note, "not yours")
		}
	}
	if diff := cmp.Diff(map[string]int{"limited": 1, "refused": 1}, notes); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	held := w.node("stuck")
	base := client.MergeFrom(held.DeepCopy())
	held.Finalizers = nil
	require.NoError(t, w.client.Patch(t.Context(), held, base))
	w.goes(stuck)
}

// writesMachine reports whether a request wrote a Machine itself, as the last one of a deletion does.
func writesMachine(r fake.Request) bool {
	return r.UserAgent == userAgent && fake.Match("patch", fake.MachineGVK().GroupKind(), "")(r) && r.Subresource == "" && r.Code == http.StatusOK
}

func TestADeletionMakesFewRequests(t *testing.T) {
	t.Parallel()
	// However slow this test is, no stage lasts for as long as it would have to, to be worth a status.
	w := newWorld(t, worldOptions{machine: machine.Options{StatusDelay: time.Minute}})
	w.oneWasDeleted()
	m := w.machineWith("m")
	w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
	w.store.ResetRequests()
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
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
	delete(counts, "patch Machine/status")
	want := map[string]int{
		"patch Node": 1, "delete FakeMachine": 1, "get FakeMachine": 1, "delete FakeConfig": 1, "get FakeConfig": 1, "delete Node": 1,
		"patch Machine": 1, // the finalizer
	}
	w.recorded(machine.EventNodeDrained, 2)
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
