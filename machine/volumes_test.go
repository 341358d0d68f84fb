package machine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machine"
)

// attach creates a PersistentVolume of claim default/<name> and attaches it to a Node.
func (w *world) attach(name, node string) *storagev1.VolumeAttachment {
	w.t.Helper()
	w.create(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: "default", Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: name},
			},
		},
	})
	return w.attachment(name, node, storagev1.VolumeAttachmentSource{PersistentVolumeName: &name})
}

func (w *world) attachment(name, node string, source storagev1.VolumeAttachmentSource) *storagev1.VolumeAttachment {
	w.t.Helper()
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va-" + name},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "csi.example.com", NodeName: node, Source: source},
	}
	w.create(va)
	va.Status.Attached = true
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), va))
	return va
}

// waitsForVolumes waits until the Machine says so and names all parts, and returns the message. Nothing may have been destroyed by then.
func (w *world) waitsForVolumes(m *unstructured.Unstructured, parts ...string) string {
	w.t.Helper()
	message := w.conditionSays(m, contract.ConditionDeleting, machine.ReasonWaitingForVolumeDetach, parts...)
	if w.get(fake.InfraMachine(contract.V1Beta2, m.GetName())).GetDeletionTimestamp() != nil {
		w.t.Error("the infrastructure was deleted while volumes were attached")
	}
	return message
}

// undrained is a Machine that is deleted without a drain, as soon as it is Ready.
func (w *world) undrained(name string) *unstructured.Unstructured {
	w.t.Helper()
	m := w.machineWith(name, fake.WithAnnotations(map[string]string{contract.ExcludeDrain: ""}))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	return m
}

// told waits for an event, which is recorded beside the passes, and wants one.
func (w *world) told(reason string) {
	w.t.Helper()
	w.eventually("event "+reason, func() string {
		if len(w.events(reason)) == 0 {
			return "there is none"
		}
		return ""
	})
	if n := len(w.events(reason)); n != 1 {
		w.t.Errorf("want one event %s, got %d", reason, n)
	}
}

// startedAt is when the Machine recorded that the wait for volumes began.
func (w *world) startedAt(m *unstructured.Unstructured) string {
	w.t.Helper()
	at, _, _ := unstructured.NestedString(w.get(m).Object, "status", "deletion", "waitForNodeVolumeDetachStartTime")
	return at
}

func TestAMachineWaitsForAttachedVolumesAndGoesOnWhenTheyAreDetached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	for _, r := range w.store.Requests() {
		if r.UserAgent == userAgent && (r.GVK.Kind == "VolumeAttachment" || r.GVK.Kind == "PersistentVolume") {
			t.Errorf("volumes were read before anything was drained: %+v", r)
		}
	}
	va := w.attach("data", "m1")
	require.NoError(t, w.client.Delete(t.Context(), m))
	message := w.waitsForVolumes(m, "default/data")
	at := w.startedAt(m)
	if want := "Waiting for Node volumes to be detached (started at " + at + ")\n* PersistentVolumeClaims: default/data"; at == "" ||
		message != want {
		t.Errorf("want %q, got %q", want, message)
	}
	w.told(machine.EventNodeDrained)
	w.isQuiet() // a volume stays attached
	if n := len(w.events(machine.EventVolumesDetached)); n != 0 {
		t.Errorf("want no event about volumes yet, got %d", n)
	}
	require.NoError(t, w.client.Delete(t.Context(), va))
	w.goes(m)
	w.told(machine.EventVolumesDetached)
}

func TestAWaitForVolumesEndsWhenAPersonExcludesItOrItsLimitIsReached(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func(*unstructured.Unstructured)
		left bool // volumes were left, and that is told
	}{
		"the annotation is set while it waits": {end: func(m *unstructured.Unstructured) {
			fake.WithAnnotations(map[string]string{contract.ExcludeVolumeDetach: ""})(m)
		}},
		"a limit is set while it waits, and counts from its start": {left: true, end: func(m *unstructured.Unstructured) {
			fake.WithField(int64(1), "spec", "deletion", "nodeVolumeDetachTimeoutSeconds")(m)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, worldOptions{})
			m := w.undrained("m1")
			w.attach("data", "m1")
			require.NoError(t, w.client.Delete(t.Context(), m))
			w.waitsForVolumes(m)
			w.change(m, tc.end)
			w.goes(m)
			if tc.left {
				w.told(machine.EventVolumeDetachFailed)
			}
			if n := len(w.events(machine.EventVolumesDetached)); n != 0 {
				t.Errorf("want no event about volumes that were detached, got %d", n)
			}
		})
	}
}

// oneWasDeleted deletes a Machine, so that everything that a deletion reads is listed. Until it is, the end of a drain is recorded
// apart.
func (w *world) oneWasDeleted() {
	w.t.Helper()
	m := w.machineWith("the-first")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	require.NoError(w.t, w.client.Delete(w.t.Context(), m))
	w.goes(m)
}

func TestAMachineWithoutVolumesIsDeletedWithoutAWriteForThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	w.oneWasDeleted()
	m := w.machineWith("m1")
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	w.isQuiet()
	w.store.ResetRequests()
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
	if n := w.writes()["Machine"]; n != 2 {
		t.Errorf("want two writes of the Machine itself, the record of its drain and the last, got %d", n)
	}
	if n := len(w.events(machine.EventVolumesDetached)); n != 0 {
		t.Errorf("want no event about volumes without a wait, got %d", n)
	}
}

func TestAVolumeAttachmentWithoutAPersistentVolumeHoldsNothingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	m := w.undrained("m1")
	w.attachment("inline", "m1", storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{}})
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
}

func TestAProcessThatStartsInTheMiddleOfAWaitForVolumesResumesIt(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	w := newWorld(t, worldOptions{noCRDs: true, before: func(w *world) {
		w.create(fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2))
		w.create(fake.CRD(fake.BootstrapConfigGVK(contract.V1Beta2), contract.V1Beta2))
		w.create(fake.InfraMachine(contract.V1Beta2, "m1"), fake.BootstrapConfig(contract.V1Beta2, "m1"))
		w.setInfra("m1", map[string]any{"initialization": map[string]any{"provisioned": true}}, "fake://x/m1")
		node := fake.Node("m1", "fake://x/m1")
		w.create(node)
		w.attach("data", "m1")
		m := fake.Machine("m1", fake.WithField([]any{contract.MachineFinalizer}, "metadata", "finalizers"),
			fake.WithField("fake://x/m1", "spec", "providerID"))
		w.create(m)
		m = w.get(m)
		require.NoError(w.t, unstructured.SetNestedMap(m.Object, map[string]any{
			"nodeRef":  map[string]any{"name": "m1"},
			"deletion": map[string]any{"nodeDrainStartTime": began, "waitForNodeVolumeDetachStartTime": began},
		}, "status"))
		m.SetAnnotations(map[string]string{contract.NodeUIDAnnotation: string(node.UID)})
		status := m.DeepCopy()
		require.NoError(w.t, w.client.Update(w.t.Context(), m))
		status.SetResourceVersion(m.GetResourceVersion())
		require.NoError(w.t, w.client.Status().Update(w.t.Context(), status))
		require.NoError(w.t, w.client.Delete(w.t.Context(), m))
		deleted := w.get(m).GetDeletionTimestamp().UTC().Format(time.RFC3339)
		w.annotate(m, map[string]any{contract.DeletionAnnotation: `{"deletion":"` + deleted + `","node":"` + string(node.UID) +
			`","stages":{"drain":{"end":"` + deleted + `"}}}`})
	}})
	m := fake.Machine("m1")
	if message := w.waitsForVolumes(m, "default/data"); !strings.Contains(message, "started at "+began) {
		t.Errorf("the wait began anew: %s", message)
	}
	if n := w.store.CountRequests(fake.Match("list", corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "")); n > 1 {
		t.Errorf("the Pods of the Node were listed %d times", n)
	}
	if w.node("m1").Spec.Unschedulable {
		t.Error("the Node was drained a second time")
	}
	require.NoError(t, w.client.Delete(t.Context(), &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "va-data"}}))
	w.eventually("the infrastructure to be deleted", func() string {
		if infra := w.get(fake.InfraMachine(contract.V1Beta2, "m1")); infra != nil {
			return "it is still there: " + describe(w.get(m))
		}
		return ""
	})
	w.goes(m)
}

func TestVolumesThatMayNotBeListedHoldADeletionAndNothingElse(t *testing.T) {
	t.Parallel()
	kind := storagev1.SchemeGroupVersion.WithKind("VolumeAttachment").GroupKind()
	var allow func()
	w := newWorld(t, worldOptions{before: func(w *world) {
		allow = w.store.Inject(fake.Fault{Times: -1, Match: fake.Match("", kind, ""), Err: apierrors.NewForbidden(
			schema.GroupResource{Group: kind.Group, Resource: "volumeattachments"}, "", errors.New("no such right"))})
	}})
	m := w.undrained("m1")
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.waitsForVolumes(m, "VolumeAttachments", "permissions", "volumeattachments.storage.k8s.io is forbidden")
	other := w.machineWith("m2")
	w.conditionIs(other, contract.ConditionReady, contract.ReasonReady)
	if at := w.startedAt(m); at != "" {
		t.Errorf("nothing is known to be attached, and a start was written: %s", at)
	}
	allow()
	w.goes(m)
}

func TestVolumesAreThoseOfTheWorkloadCluster(t *testing.T) {
	t.Parallel()
	server := newFar(1)
	server.up()
	f := newFarWorld(t, machine.Options{}, map[string]*far{"prod": server})
	m := f.provisionedIn("prod", "m", "fake://x/1")
	f.conditionIs(m, contract.ConditionNodeReady, contract.ReasonInspectionFailed)
	f.joins(server, "n", "fake://x/1")
	f.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	f.change(m, func(m *unstructured.Unstructured) { m.SetAnnotations(map[string]string{contract.ExcludeDrain: ""}) })
	f.attach("here", "n") // to a Node of the same name
	there := worldIn(t, testenv.Over(t, server.Store))
	va := there.attach("there", "n")
	require.NoError(t, f.client.Delete(t.Context(), m))
	if message := f.waitsForVolumes(m, "default/there"); !strings.Contains(message+"\n", "* PersistentVolumeClaims: default/there\n") {
		t.Errorf("want the volume of the workload cluster alone, got %s", message)
	}
	require.NoError(t, there.client.Delete(t.Context(), va))
	f.goes(m)
}

func TestWithoutAnybodyToAskNoVolumeIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{ports: func(_ ctrl.Manager, ports *machine.Ports) { ports.Workload.Volumes = nil }})
	m := w.undrained("m1")
	w.attach("data", "m1")
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
}
