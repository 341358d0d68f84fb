package drain

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

func volumeLines(p VolumePlan) []string {
	var out []string
	for _, v := range p.Blocking {
		out = append(out, "waits for "+v.Name)
	}
	return out
}

func TestVolumePlan_OneVolume(t *testing.T) {
	const (
		inTree = corev1.UniqueVolumeName("kubernetes.io/iscsi/10.0.0.1:3260:iqn:0")
		csi    = corev1.UniqueVolumeName("kubernetes.io/csi/disk.example.com^h-pv")
	)
	va := func(opts ...attachmentOption) []*storagev1.VolumeAttachment {
		return []*storagev1.VolumeAttachment{attachment("pv", opts...)}
	}
	cases := map[string]struct {
		reason      string
		node        *corev1.Node
		attachments []*storagev1.VolumeAttachment
		volumes     volumes
		pods        []*corev1.Pod
		want        []string
	}{
		"an attached volume is waited for": {
			attachments: va(), volumes: volumes{volume("pv")}, want: []string{"waits for va-pv"},
		},
		"a volume is waited for although the Node's status has forgotten it": {
			reason: "Cluster API #8507: the infrastructure was deleted while volumes were being detached",
			node:   nodeWith(), attachments: va(detaching), volumes: volumes{volume("pv")},
			want: []string{"waits for va-pv"},
		},
		"a volume whose pods are all gone, although it is not said to be attached, may yet be attached": {
			reason:      "an attach that is on its way reaches a machine that is being deleted",
			attachments: va(notAttached), volumes: volumes{volume("pv")}, want: []string{"waits for va-pv"},
		},
		"one that the Node's status names too counts once": {
			node: nodeWith(csi), attachments: va(), volumes: volumes{volume("pv")}, want: []string{"waits for va-pv"},
		},
		"another Node's attachment does not matter": {
			attachments: va(to("other")), volumes: volumes{volume("pv")},
		},
		"a volume of a DaemonSet's pod stays": {
			reason:      "Cluster API #6285, #6158: the pod never goes, so its volume is never detached",
			attachments: va(), volumes: volumes{volume("pv")}, pods: []*corev1.Pod{newPod("ds", byDaemonSet, claiming("pv"))},
		},
		"an ephemeral volume of a DaemonSet's pod stays": {
			attachments: []*storagev1.VolumeAttachment{attachment("ds-scratch")}, volumes: volumes{volume("ds-scratch")},
			pods: []*corev1.Pod{newPod("ds", byDaemonSet, ephemeral("scratch"))},
		},
		"a volume that an ignored pod shares with a drained one stays": {
			attachments: va(), volumes: volumes{volume("pv")},
			pods: []*corev1.Pod{newPod("ds", byDaemonSet, claiming("pv")), newPod("a", claiming("pv"))},
		},
		"a pod that is still draining does not end the wait": {
			attachments: va(), volumes: volumes{volume("pv")}, pods: []*corev1.Pod{newPod("a", claiming("pv"), terminating)},
			want: []string{"waits for va-pv"},
		},
		"a pod that is ignored because it runs on another Node holds nothing here": {
			attachments: va(), volumes: volumes{volume("pv")}, pods: []*corev1.Pod{newPod("moved", onNode("other"), claiming("pv"))},
			want: []string{"waits for va-pv"},
		},
		"a claim made anew under the same name does not hold the released volume": {
			attachments: va(), volumes: volumes{volume("pv", released)},
			pods: []*corev1.Pod{newPod("ds", byDaemonSet, claiming("pv"))}, want: []string{"waits for va-pv"},
		},
		"a volume of a pod's own spec is left": {
			reason:      "Cluster API: such a VolumeAttachment was a hard error, and the deletion stuck",
			attachments: va(inline, detaching),
		},
		"an attachment whose PersistentVolume is gone is left": {
			reason:      "it is not detached any more",
			attachments: va(detaching),
		},
		"an attachment that is newer than what is known about PersistentVolumes is waited for": {
			reason:      "the two come from two caches",
			attachments: va(fresh), want: []string{"waits for va-pv"},
		},
		"a volume for many Nodes is left": {
			reason:      "Cluster API #6285: a CephFS volume stayed attached",
			attachments: va(), volumes: volumes{volume("pv", modes(corev1.ReadWriteOnce, corev1.ReadWriteMany))},
		},
		"a volume for many readers is left": {
			attachments: va(), volumes: volumes{volume("pv", modes(corev1.ReadOnlyMany))},
		},
		"a volume without access modes is exclusive": {
			attachments: va(), volumes: volumes{volume("pv", modes())}, want: []string{"waits for va-pv"},
		},
		"a CSI volume that only the Node's status names is left": {
			reason: "Cluster API #11246: entries without an attachment were waited for",
			node:   nodeWith(csi),
		},
		"an in-tree volume is waited for by the Node's status": {
			node: nodeWith(inTree), want: []string{"waits for " + string(inTree)},
		},
		"an in-tree volume stays when an ignored pod has one through a claim": {
			node: nodeWith(inTree), volumes: volumes{volume("pv", iscsi)},
			pods: []*corev1.Pod{newPod("ds", byDaemonSet, claiming("pv"))},
		},
		"an in-tree volume stays when an ignored pod has one in its spec": {
			node: nodeWith(inTree),
			pods: []*corev1.Pod{newPod("ds", byDaemonSet, func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}}}
			})},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := tc.node
			if node == nil {
				node = nodeWith()
			}
			plan, err := PlanVolumes(VolumeFacts{
				Now: noon, Node: node, Attachments: tc.attachments, Volume: tc.volumes.Volume, Decisions: decisionsOf(tc.pods...),
			})
			require.NoError(t, err)
			if diff := cmp.Diff(tc.want, volumeLines(plan)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			blocks := len(tc.want) > 0 && strings.HasPrefix(tc.want[0], "waits")
			if plan.Done() == blocks {
				t.Errorf("want done %v, got %v", !blocks, plan.Done())
			}
		})
	}
}

func TestVolumePlan_StopsOnlyForAReasonThatItNames(t *testing.T) {
	cases := map[string]struct {
		facts VolumeFacts
		want  VolumeStop
	}{
		"no limit":                                {VolumeFacts{StartedAt: noon.Add(-9 * time.Hour)}, VolumesNotStopped},
		"before the limit":                        {VolumeFacts{StartedAt: noon.Add(-59 * time.Second), Timeout: time.Minute}, VolumesNotStopped},
		"at the limit":                            {VolumeFacts{StartedAt: noon.Add(-time.Minute), Timeout: time.Minute}, VolumesTimedOut},
		"a limit of a wait that has not begun":    {VolumeFacts{Timeout: time.Minute}, VolumesNotStopped},
		"a negative limit is none":                {VolumeFacts{StartedAt: noon.Add(-time.Hour), Timeout: -1}, VolumesNotStopped},
		"the kubelet does not answer":             {VolumeFacts{Node: silentFor(5 * time.Minute)}, VolumesUnreachable},
		"it has answered lately":                  {VolumeFacts{Node: silentFor(299 * time.Second)}, VolumesNotStopped},
		"the machine is off, whatever else is so": {VolumeFacts{Node: silentFor(time.Hour), PoweredOff: true}, VolumesPoweredOff},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := tc.facts
			f.Now, f.Volume = noon, volumes{volume("pv")}.Volume
			if f.Node == nil {
				f.Node = nodeWith()
			}
			f.Attachments = []*storagev1.VolumeAttachment{attachment("pv")}
			plan, err := PlanVolumes(f)
			require.NoError(t, err)
			if plan.Stopped != tc.want || plan.Done() != (tc.want != VolumesNotStopped) || len(plan.Blocking) != 1 {
				t.Errorf("want %s with the volume still named, got %s done %v", tc.want, plan.Stopped, plan.Done())
			}
			f.Attachments = nil
			plan, err = PlanVolumes(f)
			require.NoError(t, err)
			if plan.Stopped != VolumesNotStopped || !plan.Done() {
				t.Errorf("want nothing to stop when nothing is attached, got %s", plan.Stopped)
			}
		})
	}
}

func TestVolumePlan_UnreadIsNotAbsent(t *testing.T) {
	f := VolumeFacts{Now: noon, Node: nodeWith(), Attachments: []*storagev1.VolumeAttachment{attachment("pv")}}
	f.Volume = func(string) (*corev1.PersistentVolume, error) { return nil, errors.New("not synced") }
	_, err := PlanVolumes(f)
	require.ErrorContains(t, err, "persistent volume pv: not synced")
	_, err = PlanVolumes(VolumeFacts{})
	require.ErrorContains(t, err, "the Node is nil")
}

func TestVolumePlan_NamesClaims(t *testing.T) {
	plan, err := PlanVolumes(VolumeFacts{
		Now: noon, Node: nodeWith("kubernetes.io/fc/x:0"), Volume: volumes{volume("a"), volume("b"), volume("c", unclaimed)}.Volume,
		Attachments: []*storagev1.VolumeAttachment{attachment("c", detaching), attachment("b", fresh), attachment("a"), nil},
	})
	require.NoError(t, err)
	wantText := "* PersistentVolumeClaims: default/a, default/b\n" +
		"* PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim: c\n" +
		"* Node with .status.volumesAttached entries not matching a PersistentVolume: kubernetes.io/fc/x:0"
	if diff := cmp.Diff(wantText, plan.Summary(0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVolumePlan_ClaimsAreNamedInTheirOwnOrder(t *testing.T) {
	f := VolumeFacts{Now: noon, Node: nodeWith()}
	var known volumes
	for i := range 7 {
		name := fmt.Sprintf("pvc-%d", i) // as provisioners name them: their order says nothing
		f.Attachments = append(f.Attachments, attachment(name))
		known = append(known, volume(name, func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.Name = fmt.Sprintf("data-%d", 6-i) }))
	}
	f.Volume = known.Volume
	plan, err := PlanVolumes(f)
	require.NoError(t, err)
	require.Equal(t, "* PersistentVolumeClaims: default/data-0, default/data-1, default/data-2, ... (4 more)", plan.Summary(3))
}

func TestVolumePlan_ManyVolumesInAnyOrderGiveOneShortText(t *testing.T) {
	var attachments []*storagev1.VolumeAttachment
	var known volumes
	for i := range 60 {
		name := fmt.Sprintf("pv-%02d", i)
		attachments = append(attachments, attachment(name, detaching))
		known = append(known, volume(name))
	}
	random := rand.New(rand.NewPCG(1, 2))
	f := VolumeFacts{Now: noon, Node: nodeWith(), Volume: known.Volume}
	texts := map[string]bool{}
	before := attachments[0].DeepCopy()
	for range 10 {
		random.Shuffle(len(attachments), func(i, j int) { attachments[i], attachments[j] = attachments[j], attachments[i] })
		f.Attachments = attachments
		plan, err := PlanVolumes(f)
		require.NoError(t, err)
		require.Len(t, plan.Blocking, 60)
		texts[plan.Summary(0)] = true
	}
	if len(texts) != 1 {
		t.Fatalf("want one text, got %d", len(texts))
	}
	for text := range texts {
		if !strings.Contains(text, "default/pv-04, ... (55 more)") || strings.Count(text, "\n") != 0 {
			t.Errorf("want five names, got %s", text)
		}
	}
	for _, a := range attachments {
		if a.Name == before.Name {
			if diff := cmp.Diff(before, a); diff != "" {
				t.Errorf("an attachment was changed (-before +after):\n%s", diff)
			}
		}
	}
}

func TestVolumePlan_KnowsThePluginsThatAttachWithoutAVolumeAttachment(t *testing.T) {
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
