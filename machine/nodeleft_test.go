package machine_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

func TestANodeThatIsLeftAsItIsIsToldOfOnceAndSaidForAsLongAsTheDeletionLasts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options            []fake.Option
		view               func(*external.ClusterView)
		reason, kind, says string
	}{
		"a Cluster without control plane Machines": {
			view:   func(v *external.ClusterView) { v.ActiveControlPlaneMachines = contract.Some(0) },
			reason: machine.EventNodeNotDrained, kind: corev1.EventTypeWarning, says: "Node m is neither drained nor deleted: no control plane members",
		},
		"a Cluster that goes": {
			view:   func(v *external.ClusterView) { v.State.Deleting = time.Now() },
			reason: machine.EventNodeNotDrained, kind: corev1.EventTypeNormal, says: "Node m is neither drained nor deleted: the Cluster is being deleted",
		},
		"a Machine that asks for it": {
			options: []fake.Option{fake.WithAnnotations(map[string]string{contract.ExcludeDrain: ""})},
			view:    func(*external.ClusterView) {},
			reason:  machine.EventNodeNotDrained, kind: corev1.EventTypeNormal,
			says: "Node m is not drained: the Machine has the annotation " + contract.ExcludeDrain,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var v views
			w := newWorld(t, worldOptions{machine: atOnce, ports: v.ports(), noCRDs: true, before: func(w *world) {
				w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
				w.create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
			}})
			m := w.provisioned("m", "fake://x/m", append(tc.options, inCluster("c"))...)
			w.setConfig("m", dataCreated("m"))
			w.create(fake.Node("m", "fake://x/m"))
			w.conditionIs(m, machine.ConditionReady, machine.ReasonReady)
			v.set("c", tc.view)
			infra := fake.InfraMachine(contract.V1Beta2, "m")
			w.merge(infra, map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/hold"}}})
			require.NoError(t, w.client.Delete(t.Context(), m))
			message := w.conditionSays(m, machine.ConditionDeleting, machine.ReasonWaitingForInfrastructureDeletion, tc.says)
			first, line, _ := strings.Cut(message, "\n")
			require.Equal(t, "Waiting for FakeMachine m to be deleted", first)
			require.Equal(t, "* "+tc.says, line)
			told := w.recorded(tc.reason, 1)[0]
			require.Equal(t, []string{tc.kind, tc.says}, []string{told.Type, told.Note})
			w.isQuiet()
			w.merge(infra, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})
			w.goes(m)
			require.Len(t, w.events(tc.reason), 1)
			require.Empty(t, w.events(machine.EventNodeNotDeleted))
		})
	}
}

func TestANodeThatIsDrainedAndDeletedIsNotTalkedAbout(t *testing.T) {
	t.Parallel()
	w := byHandWorld(t, atOnce)
	m := w.runningByHand("m", "fake://x/m")
	infra := fake.InfraMachine(contract.V1Beta2, "m")
	w.merge(infra, map[string]any{"metadata": map[string]any{"finalizers": []string{"example.com/hold"}}})
	require.NoError(t, w.client.Delete(t.Context(), m))
	require.Equal(t, "Waiting for FakeMachine m to be deleted",
		w.conditionIs(m, machine.ConditionDeleting, machine.ReasonWaitingForInfrastructureDeletion))
	w.merge(infra, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})
	w.goes(m)
	require.Nil(t, w.node("m"))
	require.Empty(t, w.events(machine.EventNodeNotDrained))
	require.Empty(t, w.events(machine.EventNodeNotDeleted))
}

func TestANodeThatTheServerDoesNotKnowIsGoneAndOneItRefusesIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{machine: atOnce})
	seconds := fake.WithField(int64(2), "spec", "deletion", "nodeDeletionTimeoutSeconds")
	unknown, replaced := w.machineWith("unknown", seconds), w.machineWith("replaced", seconds)
	node, resource := schema.GroupKind{Kind: "Node"}, schema.GroupResource{Resource: "nodes"}
	w.conditionIs(unknown, machine.ConditionReady, machine.ReasonReady)
	w.conditionIs(replaced, machine.ConditionReady, machine.ReasonReady)
	w.store.Inject(fake.Fault{Match: fake.Match("delete", node, "unknown"), Err: apierrors.NewNotFound(resource, "unknown"), Times: -1})
	conflict := apierrors.NewConflict(resource, "replaced", apierrors.NewBadRequest("another UID"))
	w.store.Inject(fake.Fault{Match: fake.Match("delete", node, "replaced"), Err: conflict, Times: -1})
	require.NoError(t, w.client.Delete(t.Context(), unknown))
	require.NoError(t, w.client.Delete(t.Context(), replaced))
	w.goes(unknown, replaced)
	require.Contains(t, w.recorded(machine.EventNodeDeletionFailed, 1)[0].Note, "another UID")
	attempts := func(name string, code int) int {
		return w.store.CountRequests(func(r fake.Request) bool {
			return fake.Match("delete", node, name)(r) && r.UserAgent == userAgent && r.Code == code
		})
	}
	require.Equal(t, 1, attempts("unknown", http.StatusNotFound))
	require.LessOrEqual(t, attempts("replaced", http.StatusConflict), 5, "each attempt waits longer than the one before")
}

func TestANodeThatDoesNotGoInTimeIsSaidForAsLongAsOthersHoldTheMachine(t *testing.T) {
	t.Parallel()
	w := byHandWorld(t, atOnce)
	m := w.runningByHand("m", "fake://x/m")
	hold := map[string]any{"finalizers": []string{contract.MachineFinalizer, "example.com/hold"}}
	w.merge(m, map[string]any{"metadata": hold, "spec": map[string]any{"deletion": map[string]any{"nodeDeletionTimeoutSeconds": 1}}})
	node := w.node("m")
	node.Finalizers = []string{"example.com/hold"}
	require.NoError(t, w.client.Update(t.Context(), node))
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.conditionSays(m, machine.ConditionDeleting, machine.ReasonDeletionCompleted,
		"Deletion completed\n* Node m is not deleted: not completed within 1s")
	require.Contains(t, w.recorded(machine.EventNodeDeletionFailed, 1)[0].Note, "the Machine goes without")
	w.isQuiet()
	w.merge(m, map[string]any{"metadata": map[string]any{"finalizers": []string{}}})
	w.goes(m)
	require.NotNil(t, w.node("m"), "others hold it")
}
