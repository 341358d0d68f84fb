package drain

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const (
	inTreeVolume = corev1.UniqueVolumeName("kubernetes.io/iscsi/10.0.0.1:3260:iqn:0")
	csiVolume    = corev1.UniqueVolumeName("kubernetes.io/csi/disk.example.com^h-pv")
)

// mounting is a DaemonSet's pod with the volume pv.
func mounting() *corev1.Pod { return newPod("ds", byDaemonSet, claiming("pv")) }

func TestPlanVolumes(t *testing.T) {
	va := func(opts ...attachmentOption) []*storagev1.VolumeAttachment {
		return []*storagev1.VolumeAttachment{attachment("pv", opts...)}
	}
	pv := func(opts ...volumeOption) volumes { return volumes{volume("pv", opts...)} }
	scratch := newPod("ds", byDaemonSet, ephemeral("scratch"))
	inSpec := newPod("ds", byDaemonSet, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}}}
	})
	many, readers := modes(corev1.ReadWriteOnce, corev1.ReadWriteMany), modes(corev1.ReadOnlyMany)
	const waits, left = "va-pv", ""
	type pods []*corev1.Pod
	for name, tc := range map[string]struct {
		attachments []*storagev1.VolumeAttachment
		volumes     volumes
		pods        pods
		node        *corev1.Node
		want        string // what is waited for
	}{
		"an attached volume": {va(), pv(), nil, nodeWith(), waits},
		// Cluster API #8507: the infrastructure was deleted while volumes were being detached.
		"one that is detached, and that the Node's status has forgotten": {va(detaching), pv(), nil, nodeWith(), waits},
		// An attach that is on its way reaches a machine that is being deleted.
		"one whose pods are all gone, and that is not attached yet": {va(notAttached), pv(), nil, nodeWith(), waits},
		"one that the Node's status names too counts once":          {va(), pv(), nil, nodeWith(csiVolume), waits},
		"another Node's attachment":                                 {va(to("other")), pv(), nil, nodeWith(), left},
		// Cluster API #6285, #6158: the pod never goes, so its volume is never detached.
		"a volume of a DaemonSet's pod": {va(), pv(), pods{mounting()}, nodeWith(), left},
		"an ephemeral volume of a DaemonSet's pod": {[]*storagev1.VolumeAttachment{attachment("ds-scratch")}, volumes{volume("ds-scratch")},
			pods{scratch}, nodeWith(), left},
		"one that an ignored pod shares with a drained one": {va(), pv(), pods{mounting(), newPod("a", claiming("pv"))}, nodeWith(), left},
		"one of a pod that is still draining":               {va(), pv(), pods{newPod("a", claiming("pv"), terminating)}, nodeWith(), waits},
		"one of a pod of another Node": {va(), pv(), pods{newPod("moved", onNode("other"), claiming("pv"))},
			nodeWith(), waits},
		"a released one whose claim was made anew": {va(), pv(released), pods{mounting()}, nodeWith(), waits},
		// Cluster API: such a VolumeAttachment was a hard error, and the deletion stuck.
		"a volume of a pod's own spec":          {va(inline, detaching), nil, nil, nodeWith(), left},
		"an attachment whose volume is gone":    {va(detaching), nil, nil, nodeWith(), left},
		"a new attachment of an unknown volume": {va(fresh), nil, nil, nodeWith(), waits},
		// Cluster API #6285: a CephFS volume stayed attached.
		"a volume for many Nodes":                         {va(), pv(many), nil, nodeWith(), left},
		"a volume for many readers":                       {va(), pv(readers), nil, nodeWith(), left},
		"a volume without access modes":                   {va(), pv(modes()), nil, nodeWith(), waits},
		"a CSI volume of the status only":                 {nil, nil, nil, nodeWith(csiVolume), left}, // Cluster API #11246
		"an in-tree volume of the status":                 {nil, nil, nil, nodeWith(inTreeVolume), string(inTreeVolume)},
		"one while an ignored pod has one by a claim":     {nil, pv(iscsi), pods{mounting()}, nodeWith(inTreeVolume), left},
		"one while an ignored pod has another by a claim": {va(), pv(), pods{mounting()}, nodeWith(inTreeVolume), string(inTreeVolume)},
		"one while an ignored pod has one in its spec":    {nil, nil, pods{inSpec}, nodeWith(inTreeVolume), left},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := PlanVolumes(VolumeFacts{
				Now: noon, Node: tc.node, Attachments: tc.attachments, Volume: tc.volumes.Volume,
				Decisions: planOf(nil, Facts{}, tc.pods...).Decisions,
			})
			require.NoError(t, err)
			var got []string
			for _, v := range plan.Blocking {
				got = append(got, v.Name)
			}
			require.Equal(t, tc.want, strings.Join(got, " "))
			require.Equal(t, tc.want == left, plan.Done())
		})
	}
}

func TestVolumeStop(t *testing.T) {
	hour := noon.Add(-time.Hour)
	for name, tc := range map[string]struct {
		facts VolumeFacts
		want  VolumeStop
	}{
		"no limit":                                {VolumeFacts{StartedAt: hour}, VolumesNotStopped},
		"before the limit":                        {VolumeFacts{StartedAt: noon.Add(-59 * time.Second), Timeout: time.Minute}, VolumesNotStopped},
		"at the limit":                            {VolumeFacts{StartedAt: noon.Add(-time.Minute), Timeout: time.Minute}, VolumesTimedOut},
		"a limit of a wait that has not begun":    {VolumeFacts{Timeout: time.Minute}, VolumesNotStopped},
		"a negative limit is none":                {VolumeFacts{StartedAt: hour, Timeout: -1}, VolumesNotStopped},
		"the kubelet does not answer":             {VolumeFacts{Node: silentFor(5 * time.Minute)}, VolumesUnreachable},
		"it has answered lately":                  {VolumeFacts{Node: silentFor(299 * time.Second)}, VolumesNotStopped},
		"the machine is off, whatever else is so": {VolumeFacts{Node: silentFor(time.Hour), PoweredOff: true}, VolumesPoweredOff},
	} {
		t.Run(name, func(t *testing.T) {
			f := tc.facts
			f.Now, f.Volume, f.Node = noon, volumes{volume("pv")}.Volume, cmp.Or(f.Node, nodeWith())
			f.Attachments = []*storagev1.VolumeAttachment{attachment("pv")}
			plan, err := PlanVolumes(f)
			require.NoError(t, err)
			require.Equal(t, tc.want, plan.Stopped)
			require.Equal(t, tc.want != VolumesNotStopped, plan.Done())
			require.Len(t, plan.Blocking, 1, "it is named in any case")
			f.Attachments = nil
			plan, err = PlanVolumes(f)
			require.NoError(t, err)
			require.Equal(t, VolumesNotStopped, plan.Stopped, "nothing is attached")
			require.True(t, plan.Done())
		})
	}
}

func TestUnreadVolume(t *testing.T) {
	f := VolumeFacts{Now: noon, Node: nodeWith(), Attachments: []*storagev1.VolumeAttachment{attachment("pv")}}
	f.Volume = func(string) (*corev1.PersistentVolume, error) { return nil, errors.New("not synced") }
	_, err := PlanVolumes(f)
	require.ErrorContains(t, err, "persistent volume pv: not synced")
	_, err = PlanVolumes(VolumeFacts{})
	require.ErrorContains(t, err, "the Node is nil")
}

func TestVolumeSummary(t *testing.T) {
	t.Run("has the lines of Cluster API", func(t *testing.T) {
		plan, err := PlanVolumes(VolumeFacts{
			Now: noon, Node: nodeWith("kubernetes.io/fc/x:0"), Volume: volumes{volume("a"), volume("b"), volume("c", unclaimed)}.Volume,
			Attachments: []*storagev1.VolumeAttachment{attachment("c", detaching), attachment("b", fresh), attachment("a"), nil},
		})
		require.NoError(t, err)
		require.Equal(t, "* PersistentVolumeClaims: default/a, default/b\n"+
			"* PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim: c\n"+
			"* Node with .status.volumesAttached entries not matching a PersistentVolume: kubernetes.io/fc/x:0", plan.Summary())
	})
	t.Run("is short, and the same for every order of the input", func(t *testing.T) {
		f := VolumeFacts{Now: noon, Node: nodeWith()}
		var known volumes
		for i := range 60 {
			name := fmt.Sprintf("pvc-%02d", i) // as provisioners name them: their order says nothing
			f.Attachments = append(f.Attachments, attachment(name, detaching))
			known = append(known, volume(name, func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.Name = fmt.Sprintf("data-%02d", 59-i) }))
		}
		f.Volume = known.Volume
		random := rand.New(rand.NewPCG(1, 2))
		for range 10 {
			random.Shuffle(60, func(i, j int) { f.Attachments[i], f.Attachments[j] = f.Attachments[j], f.Attachments[i] })
			before := f.Attachments[0].DeepCopy()
			plan, err := PlanVolumes(f)
			require.NoError(t, err)
			require.Len(t, plan.Blocking, 60)
			require.Equal(t, "* PersistentVolumeClaims: default/data-00, default/data-01, default/data-02, default/data-03, default/data-04, "+
				"... (55 more)", plan.Summary())
			require.Equal(t, before, f.Attachments[0], "an attachment was changed")
		}
	})
}

// Plugins that attach without a VolumeAttachment.
func TestInTree(t *testing.T) {
	for member, want := range map[string]bool{
		"ISCSI": true, "FC": true, "FlexVolume": true, "RBD": true, "AWSElasticBlockStore": true, "GCEPersistentDisk": true, "AzureDisk": true,
		"Cinder": true, "VsphereVolume": true, "PortworxVolume": true, "CSI": false, "HostPath": false,
	} {
		var pod corev1.VolumeSource
		field := reflect.ValueOf(&pod).Elem().FieldByName(member)
		field.Set(reflect.New(field.Type().Elem()))
		require.Equal(t, want, isInTree(&pod), member)
	}
}
