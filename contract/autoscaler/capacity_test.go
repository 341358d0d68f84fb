package autoscaler_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/autoscaler"
)

// resources makes a list from pairs of name and quantity.
func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

const prefix = "capacity.cluster-autoscaler.kubernetes.io/"

// capacityCase is one set of annotations, without their prefix.
type capacityCase struct {
	annotations map[string]string
	want        autoscaler.Capacity
	err         []string
}

func capacityCases() map[string]capacityCase {
	taint := corev1.Taint{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}
	long := strings.Repeat("9", 1<<20)
	return map[string]capacityCase{
		"none": {},
		"quantities": {annotations: map[string]string{"cpu": "2500m", "memory": "16Gi", "ephemeral-disk": "1e2", "maxPods": "250"},
			want: autoscaler.Capacity{Resources: resources("cpu", "2500m", "memory", "16Gi", "ephemeral-storage", "100", "pods", "250")}},
		"empty annotations say nothing": {annotations: map[string]string{"cpu": "", "memory": "", "maxPods": "", "gpu-type": "",
			"gpu-count": "", "labels": "", "taints": "", "csi-driver": "", "dra-driver": ""}},
		"a bad quantity": {annotations: map[string]string{"cpu": "four"},
			err: []string{`cpu: found "four", want a quantity, as in "4", "500m" or "16Gi" (the autoscaler takes the group`}},
		"a quantity of zero": {annotations: map[string]string{"memory": "0"},
			err: []string{`memory: found "0", want a quantity, as in "4", "500m" or "16Gi", above zero (the autoscaler takes it for unset)`}},
		"a quantity below zero": {annotations: map[string]string{"memory": "-1Gi"},
			err: []string{`memory: found "-1Gi", want a quantity, as in "4", "500m" or "16Gi", above zero`}},
		"a quantity that takes for ever": {
			annotations: map[string]string{"cpu": "1e-2147483647", "memory": "1E2147483647", "ephemeral-disk": long},
			err: []string{`cpu: found "1e-2147483647"`, `ephemeral-disk: found "` + long[:60] + `"... (1048576 bytes)`,
				`memory: found "1E2147483647"`}},
		"an exponent of two digits, padded": {annotations: map[string]string{"cpu": "1e+0002"},
			want: autoscaler.Capacity{Resources: resources("cpu", "100")}},
		"exa is no exponent": {annotations: map[string]string{"cpu": "1E", "memory": "1Ei"},
			want: autoscaler.Capacity{Resources: resources("cpu", "1E", "memory", "1Ei")}},
		"pods are whole": {annotations: map[string]string{"maxPods": "1k"},
			err: []string{`maxPods: found "1k", want a whole number from 0`}},
		"pods of zero are 110": {annotations: map[string]string{"maxPods": "0"},
			err: []string{`maxPods: found "0", want a whole number from 1 (the autoscaler takes it for 110)`}},
		"pods below zero": {annotations: map[string]string{"maxPods": "-1"},
			err: []string{`maxPods: found "-1", want a whole number from 0`}},
		"devices": {annotations: map[string]string{"gpu-type": "nvidia.com/gpu", "gpu-count": "2"},
			want: autoscaler.Capacity{Resources: resources("nvidia.com/gpu", "2"), GPUType: "nvidia.com/gpu", GPUCount: 2}},
		"devices of a driver": {annotations: map[string]string{"dra-driver": "gpu.example.com", "gpu-count": "8"},
			want: autoscaler.Capacity{DRADriver: "gpu.example.com", GPUCount: 8}},
		"no devices, said so": {annotations: map[string]string{"gpu-type": "nvidia.com/gpu", "gpu-count": "0"},
			want: autoscaler.Capacity{GPUType: "nvidia.com/gpu"}},
		"a type without a count": {annotations: map[string]string{"gpu-type": "nvidia.com/gpu"},
			want: autoscaler.Capacity{GPUType: "nvidia.com/gpu"},
			err:  []string{`gpu-count: found nothing, want how many devices there are, beside their type or driver (the autoscaler plans without devices)`}},
		"a driver without a count": {annotations: map[string]string{"dra-driver": "gpu.example.com"},
			want: autoscaler.Capacity{DRADriver: "gpu.example.com"},
			err:  []string{`gpu-count: found nothing`}},
		"a count without a type": {annotations: map[string]string{"gpu-count": "2"}, want: autoscaler.Capacity{GPUCount: 2},
			err: []string{`gpu-type: found nothing, want the name of a resource, because there is a count of devices`}},
		"a bad count is reported once": {annotations: map[string]string{"gpu-count": "two", "gpu-type": "nvidia.com/gpu"},
			want: autoscaler.Capacity{GPUType: "nvidia.com/gpu"},
			err:  []string{`gpu-count: found "two", want a whole number from 0`}},
		"a type without a domain": {annotations: map[string]string{"gpu-type": "cpu", "gpu-count": "2"}, want: autoscaler.Capacity{GPUCount: 2},
			err: []string{`gpu-type: found "cpu", want the name of an extended resource, as in "nvidia.com/gpu"`}},
		"a bad driver": {annotations: map[string]string{"dra-driver": "a b", "gpu-count": "2"}, want: autoscaler.Capacity{GPUCount: 2},
			err: []string{`dra-driver: found "a b", want the name of a driver`}},
		"more devices than a ResourceSlice may hold": {
			annotations: map[string]string{"dra-driver": "gpu.example.com", "gpu-count": "1000000000000"},
			want:        autoscaler.Capacity{DRADriver: "gpu.example.com", GPUCount: 1e12},
			err:         []string{`gpu-count: found "1000000000000", want at most 128`}},
		"labels": {annotations: map[string]string{"labels": "a=b,example.com/c=,"},
			want: autoscaler.Capacity{Labels: map[string]string{"a": "b", "example.com/c": ""}}},
		"bad labels, and one that is good": {annotations: map[string]string{"labels": "a, b=c,=d,e=f=g,h=i,h=j"},
			want: autoscaler.Capacity{Labels: map[string]string{"h": "i"}},
			err: []string{`labels: found "a" (entry 1), want key=value (the autoscaler drops it without a word)`,
				`labels: found " b=c" (entry 2), want key=value, a valid label without spaces around it`,
				`labels: found "=d" (entry 3)`, `labels: found "e=f=g" (entry 4)`,
				`labels: found "h=j" (entry 6), want every key once (the autoscaler takes the last)`}},
		"taints": {annotations: map[string]string{"taints": "k=v:NoSchedule,k:NoExecute,k=:PreferNoSchedule"},
			want: autoscaler.Capacity{Taints: []corev1.Taint{
				taint, {Key: "k", Effect: corev1.TaintEffectNoExecute}, {Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}}},
		"bad taints, and one that is good": {
			annotations: map[string]string{"taints": "k=v:NoSchedule,k,k=v:Never,k=a=b:NoSchedule,=v:NoSchedule, l:NoSchedule,k=w:NoSchedule"},
			want:        autoscaler.Capacity{Taints: []corev1.Taint{taint}},
			err: []string{`taints: found "k" (entry 2), want key=value:Effect or key:Effect`,
				`taints: found "k=v:Never" (entry 3), want a taint with effect NoSchedule, PreferNoSchedule or NoExecute`,
				`taints: found "k=a=b:NoSchedule" (entry 4), want a taint with a valid value`,
				`taints: found "=v:NoSchedule" (entry 5), want a taint with a valid key`,
				`taints: found " l:NoSchedule" (entry 6)`, `taints: found "k=w:NoSchedule" (entry 7), want every pair of key and effect once`}},
		"volume drivers": {annotations: map[string]string{"csi-driver": "ebs.csi.aws.com=25, efs.csi.aws.com = 0,"},
			want: autoscaler.Capacity{CSIDrivers: []autoscaler.CSIDriver{{Name: "ebs.csi.aws.com", VolumeLimit: 25}, {Name: "efs.csi.aws.com"}}}},
		"bad volume drivers, and one that is good": {annotations: map[string]string{"csi-driver": "a,b=x,c=-1,=2,d=2147483648,e f=1,g=1,g=2"},
			want: autoscaler.Capacity{CSIDrivers: []autoscaler.CSIDriver{{Name: "g", VolumeLimit: 1}}},
			err: []string{`csi-driver: found "a" (entry 1), want driver=limit`, `csi-driver: found "b=x" (entry 2)`,
				`csi-driver: found "c=-1" (entry 3)`,
				`csi-driver: found "=2" (entry 4)`, `csi-driver: found "d=2147483648" (entry 5)`,
				`csi-driver: found "e f=1" (entry 6), want the name of a driver`,
				`csi-driver: found "g=2" (entry 8), want every driver once`}},
		"a bad annotation does not hide the others": {annotations: map[string]string{"cpu": "4", "memory": "x", "labels": "a=b"},
			want: autoscaler.Capacity{Resources: resources("cpu", "4"), Labels: map[string]string{"a": "b"}}, err: []string{`memory: found "x"`}},
	}
}

func TestParseCapacity(t *testing.T) {
	for name, tc := range capacityCases() {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{"cpu": "not ours"}
			for key, value := range tc.annotations {
				annotations[prefix+key] = value
			}
			got, err := autoscaler.ParseCapacity(annotations)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			requireErrors(t, tc.err, err)
		})
	}
}

// requireErrors compares the beginnings of errors that were joined.
func requireErrors(t *testing.T, want []string, err error) {
	t.Helper()
	if len(want) == 0 {
		require.NoError(t, err)
		return
	}
	require.ErrorIs(t, err, autoscaler.ErrAnnotation)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, len(want), "%s", err)
	for i, line := range lines {
		require.True(t, strings.HasPrefix(line, "annotation "+prefix+want[i]), "want %s\ngot  %s", want[i], line)
	}
}

func TestCapacity_OverWinsPartByPart(t *testing.T) {
	base := autoscaler.Capacity{
		Resources: resources("cpu", "2", "memory", "4Gi"), Labels: map[string]string{"a": "1", "b": "1"},
		Taints:       []corev1.Taint{{Key: "k", Value: "1", Effect: "NoSchedule"}, {Key: "k", Effect: "NoExecute"}},
		CSIDrivers:   []autoscaler.CSIDriver{{Name: "a"}},
		Architecture: "amd64", OperatingSystem: "linux",
	}
	over := autoscaler.Capacity{
		Resources: resources("cpu", "8", "nvidia.com/gpu", "1"), GPUType: "nvidia.com/gpu", GPUCount: 1, Labels: map[string]string{"b": "2"},
		Taints:     []corev1.Taint{{Key: "k", Value: "2", Effect: "NoSchedule"}, {Key: "l", Effect: "NoSchedule"}},
		CSIDrivers: []autoscaler.CSIDriver{{Name: "b"}},
		DRADriver:  "d", Architecture: "arm64",
	}
	want := autoscaler.Capacity{
		Resources: resources("cpu", "8", "memory", "4Gi", "nvidia.com/gpu", "1"), GPUType: "nvidia.com/gpu", GPUCount: 1,
		Labels: map[string]string{"a": "1", "b": "2"},
		Taints: []corev1.Taint{{Key: "k", Value: "2", Effect: "NoSchedule"}, {Key: "k", Effect: "NoExecute"},
			{Key: "l", Effect: "NoSchedule"}},
		CSIDrivers: []autoscaler.CSIDriver{{Name: "b"}}, DRADriver: "d", Architecture: "arm64", OperatingSystem: "linux",
	}
	before := base.Over(autoscaler.Capacity{})
	got := over.Over(base)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got.Labels["a"], got.Taints[1].Value, got.Resources["cpu"] = "changed", "changed", resource.MustParse("1")
	if diff := cmp.Diff(before, base); diff != "" {
		t.Errorf("Over changed or shares what is below (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(base, base.Over(autoscaler.Capacity{})); diff != "" {
		t.Errorf("over nothing (-want +got):\n%s", diff)
	}
}

func TestCapacityOf_PutsTheSourcesTogether(t *testing.T) {
	group, template := parse(t, machineSetYAML), parse(t, templateYAML)
	group = with(t, group, "metadata/annotations", prefix+"cpu", "8")
	group = with(t, group, "metadata/annotations", prefix+"taints", "dedicated=night:NoSchedule")
	group = with(t, group, "spec/template/spec/metadata/labels",
		map[string]any{"node-role.kubernetes.io/worker": "old", "x.node.cluster.x-k8s.io/a": "b", "other": "c"})
	template = with(t, template, "status/capacity/pods", "500")
	beforeGroup, beforeTemplate := group.DeepCopy(), template.DeepCopy()

	got, err := autoscaler.CapacityOf(group, template)
	require.NoError(t, err)
	want := autoscaler.Capacity{
		Resources:    resources("cpu", "8", "memory", "16Gi", "nvidia.com/gpu", "1", "pods", "110"),
		Labels:       map[string]string{"node-role.kubernetes.io/worker": "", "x.node.cluster.x-k8s.io/a": "b"},
		Taints:       []corev1.Taint{{Key: "dedicated", Value: "night", Effect: corev1.TaintEffectNoSchedule}},
		Architecture: "arm64", OperatingSystem: "linux",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	require.True(t, got.ScalesFromZero())
	require.Equal(t, beforeGroup, group)
	require.Equal(t, beforeTemplate, template)

	alone, err := autoscaler.CapacityOf(group, nil)
	require.NoError(t, err)
	require.False(t, alone.ScalesFromZero(), "memory is not known without the template")
}

func TestCapacityOf_NamesEveryPlaceThatCannotBeRead(t *testing.T) {
	group, template := parse(t, machineSetYAML), parse(t, templateYAML)
	group = with(t, group, "metadata/annotations", prefix+"cpu", "x")
	group = with(t, group, "spec/template/spec/taints",
		[]any{"x", map[string]any{"key": int64(1)}, map[string]any{"key": "k", "effect": "Never"}})
	group = with(t, group, "spec/template/metadata/labels", "set", int64(1))
	template = with(t, template, "status/capacity/cpu", "x")
	template = with(t, template, "status/nodeInfo/architecture", true)
	got, err := autoscaler.CapacityOf(group, template)
	require.ErrorIs(t, err, autoscaler.ErrAnnotation)
	require.ErrorIs(t, err, contract.ErrWrongType)
	require.EqualError(t, err, strings.Join([]string{
		`ExampleMachineTemplate default/workers: status.capacity.cpu: want a quantity, as in "4", "500m" or "16Gi", from 0, found "x"`,
		`status.nodeInfo.architecture: want string, found bool`,
		`MachineSet default/workers: spec.template.metadata.labels.set: want string, found integer`,
		`spec.template.spec.taints[0]: want object, found string`,
		`spec.template.spec.taints[1].key: want string, found integer`,
		`spec.template.spec.taints[2]: want a taint with effect NoSchedule, PreferNoSchedule or NoExecute, found "k:Never"`,
		`annotation ` + prefix + `cpu: found "x", want a quantity, as in "4", "500m" or "16Gi" (the autoscaler takes the group for one that cannot be scaled from zero)`,
	}, "\n"))
	if diff := cmp.Diff(resources("memory", "16Gi", "nvidia.com/gpu", "1", "pods", "110"), got.Resources); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTemplateCapacity_IsDroppedWhenOneQuantityIsANumber(t *testing.T) {
	template := with(t, parse(t, templateYAML), "status/capacity/cpu", int64(4))
	got, err := autoscaler.TemplateCapacity(template)
	require.EqualError(t, err, "ExampleMachineTemplate default/workers: status.capacity.cpu: want string, found integer")
	var field *contract.FieldError
	require.ErrorAs(t, err, &field)
	require.Empty(t, got.Resources)
	require.Equal(t, "arm64", got.Architecture)
}

func TestParseCapacity_BoundsWhatItSaysAboutLongLists(t *testing.T) {
	const n = 200000
	var labels, taints, drivers strings.Builder
	for i := range n {
		fmt.Fprintf(&labels, "%d,", i)
		fmt.Fprintf(&taints, "k%d:NoExecute,", i)
		fmt.Fprintf(&drivers, "d%d=1,", i)
	}
	got, err := autoscaler.ParseCapacity(
		map[string]string{autoscaler.LabelsAnnotation: labels.String(), autoscaler.TaintsAnnotation: taints.String(),
			autoscaler.CSIDriverAnnotation: drivers.String()})
	require.Len(t, got.Taints, n)
	require.Len(t, got.CSIDrivers, n)
	require.Len(t, got.Over(got).Taints, n)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 11)
	require.Contains(t, lines[10], `found "10" (entry 11), and 199989 more entries that are wrong, want key=value`)
}

func TestCapacityOf_BoundsWhatItSaysAboutLongLists(t *testing.T) {
	taints := make([]any, 200000)
	for i := range taints {
		taints[i] = map[string]any{"key": "k" + strconv.Itoa(i), "effect": "NoSchedule"}
	}
	group := with(t, parse(t, machineSetYAML), "spec/template/spec/taints", taints)
	got, err := autoscaler.CapacityOf(group, nil)
	require.NoError(t, err)
	require.Len(t, got.Taints, len(taints))
	for i := range taints {
		taints[i] = nil
	}
	group = with(t, group, "spec/template/spec/taints", taints)
	_, err = autoscaler.CapacityOf(group, nil)
	require.ErrorIs(t, err, contract.ErrWrongType)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 11)
	require.Equal(t, "and the like 199990 more times, first: spec.template.spec.taints[10]: want object, found null", lines[10])
}

func TestManagedLabel(t *testing.T) {
	tests := map[string]bool{
		"node-role.kubernetes.io/worker": true, "node-role.kubernetes.io": true, "x.node-role.kubernetes.io/worker": false,
		"node-restriction.kubernetes.io/a": true, "x.node-restriction.kubernetes.io/a": true, "xnode-restriction.kubernetes.io/a": false,
		"node.cluster.x-k8s.io/a": true, "a.b.node.cluster.x-k8s.io/a": true, "cluster.x-k8s.io/a": false, "a": false, "": false,
	}
	got := map[string]bool{}
	for label := range tests {
		got[label] = autoscaler.ManagedLabel(label)
	}
	if diff := cmp.Diff(tests, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
