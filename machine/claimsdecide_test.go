package machine

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

func TestOnlyWhatAMachineSaysAboutItsNodeConcernsItsRivals(t *testing.T) {
	t.Parallel()
	rivalry := (&Reconciler{
		kind: contract.Unstructured(fake.MachineGVK(), contract.MachineV1Beta2()), workloads: cluster.NewTracker(cluster.TrackerConfig{}),
	}).claimChanges()
	before := fake.Machine("m", fake.WithField("p://1", "spec", "providerID"))
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"nothing":         {func(*unstructured.Unstructured) {}, false},
		"a label":         {func(m *unstructured.Unstructured) { m.SetLabels(map[string]string{"a": "b"}) }, false},
		"the phase":       {func(m *unstructured.Unstructured) { fake.WithField("Running", "status", "phase")(m) }, false},
		"the provider ID": {func(m *unstructured.Unstructured) { fake.WithField("p://2", "spec", "providerID")(m) }, true},
		"its Node":        {func(m *unstructured.Unstructured) { fake.WithField("n", "status", "nodeRef", "name")(m) }, true},
		"the Node's UID": {func(m *unstructured.Unstructured) {
			m.SetAnnotations(map[string]string{contract.NodeUIDAnnotation: "u"})
		}, true},
		"its addresses": {func(m *unstructured.Unstructured) {
			fake.WithField([]any{map[string]any{"type": "InternalIP", "address": "10.0.0.1"}}, "status", "addresses")(m)
		}, false},
		"its deletion":      {func(m *unstructured.Unstructured) { m.SetDeletionTimestamp(new(metav1.Now())) }, true},
		"it cannot be read": {func(m *unstructured.Unstructured) { fake.WithField(int64(1), "spec", "providerID")(m) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := before.DeepCopy()
			c.change(after)
			require.Equal(t, c.want, rivalry.Update(ctrlevent.UpdateEvent{ObjectOld: before, ObjectNew: after}))
		})
	}
	require.True(t, rivalry.Create(ctrlevent.CreateEvent{Object: before}))
	require.True(t, rivalry.Delete(ctrlevent.DeleteEvent{Object: before}))
}
