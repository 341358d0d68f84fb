package machine_test

import (
	"errors"
	"strings"
	"testing"

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
	w.Create(&corev1.PersistentVolume{
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
	w.Create(va)
	va.Status.Attached = true
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), va))
	return va
}

// waitsForVolumes waits until the Machine says so and names all parts, and returns the message. Nothing may have been destroyed by then.
func (w *world) waitsForVolumes(m *unstructured.Unstructured, parts ...string) string {
	w.t.Helper()
	message := w.conditionIs(m, contract.ConditionDeleting, machine.ReasonWaitingForVolumeDetach, parts...)
	require.Nil(w.t, w.Get(fake.InfraMachine(contract.V1Beta2, m.GetName())).GetDeletionTimestamp())
	return message
}

// undrained is a Machine that is deleted without a drain, as soon as it is Ready.
func (w *world) undrained(name string) *unstructured.Unstructured {
	w.t.Helper()
	m := w.ready(name, fake.WithAnnotations(map[string]string{contract.ExcludeDrain: ""}))
	return m
}

// told waits for an event, which is recorded beside the passes, and wants one.
func (w *world) told(reason string) {
	w.t.Helper()
	w.Until("event "+reason, func() bool { return len(w.Events(reason)) > 0 })
	require.Len(w.t, w.Events(reason), 1)
}

// startedAt is when the Machine recorded that the wait for volumes began.
func (w *world) startedAt(m *unstructured.Unstructured) string {
	w.t.Helper()
	at, _, _ := unstructured.NestedString(w.Get(m).Object, "status", "deletion", "waitForNodeVolumeDetachStartTime")
	return at
}

func TestAMachineWaitsForAttachedVolumesAndGoesOnWhenTheyAreDetached(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := w.ready("m1")
	for _, r := range w.store.Requests() {
		require.False(t, r.UserAgent == userAgent && (r.GVK.Kind == "VolumeAttachment" || r.GVK.Kind == "PersistentVolume"))
	}
	va := w.attach("data", "m1")
	w.Delete(m)
	message := w.waitsForVolumes(m, "default/data")
	at := w.startedAt(m)
	if want := "Waiting for Node volumes to be detached (started at " + at + ")\n* PersistentVolumeClaims: default/data"; at == "" ||
		message != want {
		t.Errorf("want %q, got %q", want, message)
	}
	w.told(machine.EventNodeDrained)
	w.isQuiet() // a volume stays attached
	require.Empty(t, w.Events(machine.EventVolumesDetached))
	w.Delete(va)
	w.Gone(m)
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
			w := newWorld(t, worldOptions{})
			m := w.undrained("m1")
			w.attach("data", "m1")
			w.Delete(m)
			w.waitsForVolumes(m)
			w.Change(m, tc.end)
			w.Gone(m)
			if tc.left {
				w.told(machine.EventVolumeDetachFailed)
			}
			require.Empty(t, w.Events(machine.EventVolumesDetached))
		})
	}
}

// oneWasDeleted deletes a Machine, so that everything that a deletion reads is listed. Until it is, the end of a drain is recorded
// apart.
func (w *world) oneWasDeleted() {
	w.t.Helper()
	m := w.ready("the-first")
	w.Remove(m)
}

func TestAVolumeAttachmentWithoutAPersistentVolumeHoldsNothingUp(t *testing.T) {
	w := newWorld(t, worldOptions{})
	m := w.undrained("m1")
	w.attachment("inline", "m1", storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{}})
	w.Remove(m)
}

func TestVolumesThatMayNotBeListedHoldADeletionAndNothingElse(t *testing.T) {
	kind := storagev1.SchemeGroupVersion.WithKind("VolumeAttachment").GroupKind()
	var allow func()
	w := newWorld(t, worldOptions{before: func(w *world) {
		allow = w.store.Inject(fake.Fault{Times: -1, Match: fake.Match("", kind, ""), Err: apierrors.NewForbidden(
			schema.GroupResource{Group: kind.Group, Resource: "volumeattachments"}, "", errors.New("no such right"))})
	}})
	m := w.undrained("m1")
	w.Delete(m)
	w.waitsForVolumes(m, "VolumeAttachments", "permissions", "volumeattachments.storage.k8s.io is forbidden")
	w.ready("m2")
	require.Empty(t, w.startedAt(m), "nothing is known to be attached")
	allow()
	w.Gone(m)
}

func TestVolumesAreThoseOfTheWorkloadCluster(t *testing.T) {
	server := newFar(1)
	server.up()
	f := newFarWorld(t, machine.Options{}, map[string]*far{"prod": server})
	m := f.provisionedIn("prod", "m", "fake://x/1")
	f.conditionIs(m, contract.ConditionNodeReady, contract.ReasonInspectionFailed)
	f.joins(server, "n", "fake://x/1")
	f.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	f.Change(m, func(m *unstructured.Unstructured) { m.SetAnnotations(map[string]string{contract.ExcludeDrain: ""}) })
	f.attach("here", "n") // to a Node of the same name
	there := worldIn(t, testenv.Over(t, server.Store))
	va := there.attach("there", "n")
	f.Delete(m)
	if message := f.waitsForVolumes(m, "default/there"); !strings.Contains(message+"\n", "* PersistentVolumeClaims: default/there\n") {
		t.Errorf("want the volume of the workload cluster alone, got %s", message)
	}
	require.NoError(t, there.client.Delete(t.Context(), va))
	f.Gone(m)
}

func TestWithoutAnybodyToAskNoVolumeIsWaitedFor(t *testing.T) {
	w := newWorld(t, worldOptions{ports: func(_ ctrl.Manager, ports *machine.Ports) { ports.Workload.Volumes = nil }})
	m := w.undrained("m1")
	w.attach("data", "m1")
	w.Remove(m)
}
