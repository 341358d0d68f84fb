package machine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machine"
)

// anHourAgo is the clock of a store whose objects are older than what another controller says of them.
type anHourAgo struct{ clock.RealClock }

func (anHourAgo) Now() time.Time { return time.Now().Add(-time.Hour) }

// handOver creates a Machine as Cluster API v1.13 leaves it in the middle of its deletion: its Node is cordoned and drained, and a pod that
// tolerates that came since. A volume is still attached.
func (w *world) handOver(m *unstructured.Unstructured) {
	w.t.Helper()
	infra, config := fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1")
	m.SetFinalizers([]string{"machine.cluster.x-k8s.io"})
	w.create(m)
	owner := *metav1.NewControllerRef(m, m.GroupVersionKind())
	for _, obj := range []client.Object{infra, config} {
		obj.SetOwnerReferences([]metav1.OwnerReference{owner})
		obj.SetLabels(map[string]string{contract.ClusterNameLabel: "demo"})
		w.create(obj)
	}
	id := fake.ProviderID(infra)
	w.change(infra, func(u *unstructured.Unstructured) {
		fake.WithField(id, "spec", "providerID")(u)
		fake.WithField(true, "status", "initialization", "provisioned")(u)
	})
	node := fake.Node("m1", id)
	node.Spec.Unschedulable = true
	w.create(node, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"},
		Spec:       corev1.PodSpec{NodeName: "m1", Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}},
	})
	w.attach("data", "m1")
	require.NoError(w.t, w.client.Delete(w.t.Context(), m))
	before, done := time.Now().Add(-30*time.Minute).UTC().Format(time.RFC3339), time.Now().Add(-20*time.Minute).UTC().Format(time.RFC3339)
	said := func(kind, status, reason string) map[string]any {
		c := map[string]any{"type": kind, "status": status, "lastTransitionTime": done}
		if reason != "" {
			c["reason"], c["severity"] = reason, "Info"
		}
		return c
	}
	old := []any{
		said("Ready", "False", "Deleting"), said("DrainingSucceeded", "True", ""), said("PreDrainDeleteHookSucceeded", "True", ""),
		said("VolumeDetachSucceeded", "False", "WaitingForVolumeDetach"),
	}
	now := []any{map[string]any{
		"type": "Deleting", "status": "True", "reason": "WaitingForVolumeDetach", "message": "Waiting for Node volumes to be detached",
		"lastTransitionTime": before, "observedGeneration": int64(1),
	}}
	w.change(m, func(u *unstructured.Unstructured) {
		fake.WithField(id, "spec", "providerID")(u)
		fake.WithField("m1", "spec", "bootstrap", "dataSecretName")(u)
		status := map[string]any{
			"phase": "Deleting", "nodeRef": map[string]any{"name": "m1"},
			"deletion": map[string]any{"nodeDrainStartTime": before, "waitForNodeVolumeDetachStartTime": done},
		}
		if u.GroupVersionKind().Version == "v1beta1" {
			status["nodeRef"] = map[string]any{"kind": "Node", "apiVersion": "v1", "name": "m1", "uid": string(node.UID)}
			status["bootstrapReady"], status["infrastructureReady"] = true, true
			status["conditions"], status["v1beta2"] = old, map[string]any{"conditions": now}
		} else {
			status["initialization"] = map[string]any{"bootstrapDataSecretCreated": true, "infrastructureProvisioned": true}
			status["conditions"], status["deprecated"] = now, map[string]any{"v1beta1": map[string]any{"conditions": old}}
		}
		u.Object["status"] = status
	})
}

// providersAreDone waits for the last write of the providers: an object that changes while its deletion is requested is deleted again.
func (w *world) providersAreDone() {
	w.t.Helper()
	for _, obj := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1")} {
		w.eventually("write of "+obj.GetKind(), func() string {
			if c := testenv.Condition(w.get(obj), contract.ConditionReady); c.Status != metav1.ConditionTrue {
				return "its provider has not written it"
			}
			return ""
		})
	}
}

// refersTo writes a reference as v1beta1 does.
func refersTo(gvk schema.GroupVersionKind, path ...string) fake.Option {
	return fake.WithField(map[string]any{
		"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "namespace": "default", "name": "m1",
	}, path...)
}

func TestAMachineThatClusterAPIHandsOverInItsDeletionGoes(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1beta1", "v1beta2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			kind, m := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine), fake.Machine("m1")
			if version == "v1beta1" {
				kind = contract.Unstructured(fake.MachineGVK().GroupKind().WithVersion(version), contract.LayoutsOf(contract.V1Beta1).Machine)
				refersTo(fake.InfraMachineGVK(contract.V1Beta2), "spec", "infrastructureRef")(m)
				refersTo(fake.BootstrapConfigGVK(contract.V1Beta2), "spec", "bootstrap", "configRef")(m)
			}
			m.SetGroupVersionKind(kind.GVK)
			w := newWorld(t, worldOptions{
				kind: kind, store: fake.Options{Clock: anHourAgo{}}, infrastructure: fake.Infrastructure{NoNode: true},
				before:   func(w *world) { w.handOver(m) },
				provided: (*world).providersAreDone,
			})
			w.waitsForVolumes(m, "default/data")
			require.NoError(t, w.client.Delete(t.Context(), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va-data"}}))
			w.goes(m)
			w.recorded(machine.EventNodeDrained, 1)
			var deleted []string
			for _, r := range w.store.Requests() {
				if r.UserAgent == userAgent && r.Verb == "delete" {
					deleted = append(deleted, r.GVK.Kind)
				}
			}
			want := []string{fake.InfraMachineGVK(contract.V1Beta2).Kind, fake.BootstrapConfigGVK(contract.V1Beta2).Kind, "Node"}
			if !slices.Equal(want, deleted) {
				t.Errorf("want %v to be deleted, got %v", want, deleted)
			}
		})
	}
}
