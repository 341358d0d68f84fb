package propagate

import (
	"encoding/json"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

var equalEmpty = cmpopts.EquateEmpty()

// Random Nodes and wishes, with keys that overlap on purpose. The wanted state is computed by a plain model; the patch has to
// reach it, reject every Node whose touched value changed, and tolerate every other change.
func TestPatchesReachTheDesiredStateAndNothingElse(t *testing.T) {
	rng := rand.New(rand.NewSource(7))
	for range 500 {
		node, desired := randomNode(rng), randomDesired(rng)
		want := model(node, desired)

		patch, changed := Diff(node, desired)
		if !changed {
			require.Empty(t, cmp.Diff(want, node, equalEmpty), "nothing to do is only said of a Node that is as it should be")
			continue
		}
		got, err := apply(t, node, patch.JSON())
		require.NoError(t, err, patch.String())
		require.Empty(t, cmp.Diff(want, got, equalEmpty), patch.String())

		again, _ := Diff(node, desired)
		require.Equal(t, patch.String(), again.String(), "equal input gives a byte-equal patch")

		rejectsTouched(t, node, patch)
		toleratesForeign(t, node, want, patch)
	}
}

func rejectsTouched(t *testing.T, node *corev1.Node, patch Patch) {
	t.Helper()
	for path := range touched(t, patch) {
		meanwhile := node.DeepCopy()
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[strings.LastIndex(path, "/")+1:])
		switch {
		case strings.HasPrefix(path, "/metadata/labels"):
			meanwhile.Labels = flip(meanwhile.Labels, key)
		case strings.HasPrefix(path, "/metadata/annotations"):
			meanwhile.Annotations = flip(meanwhile.Annotations, key)
		default:
			meanwhile.Spec.Taints = slices.Insert(meanwhile.Spec.Taints, 0, corev1.Taint{Key: "new", Effect: "NoSchedule"})
		}
		_, err := apply(t, meanwhile, patch.JSON())
		require.Error(t, err, "%s changed meanwhile\n%s", path, patch)
	}
	replaced := node.DeepCopy()
	replaced.UID = "other"
	_, err := apply(t, replaced, patch.JSON())
	require.Error(t, err, "another Node of the same name")
}

func toleratesForeign(t *testing.T, node, want *corev1.Node, patch Patch) {
	t.Helper()
	meanwhile, wanted := node.DeepCopy(), want.DeepCopy()
	for _, n := range []*corev1.Node{meanwhile, wanted} {
		n.ResourceVersion = "later"
		n.Spec.Unschedulable = true
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "new", Effect: "NoSchedule"})
		if len(node.Labels) > 0 {
			n.Labels["foreign/new"] = "1"
		}
		if len(node.Annotations) > 0 {
			n.Annotations["foreign/new"] = "1"
		}
	}
	got, err := apply(t, meanwhile, patch.JSON())
	require.NoError(t, err, patch.String())
	require.Empty(t, cmp.Diff(wanted, got, equalEmpty), patch.String())
}

func touched(t *testing.T, patch Patch) map[string]bool {
	t.Helper()
	var ops []operation
	require.NoError(t, json.Unmarshal(patch.JSON(), &ops))
	paths := map[string]bool{}
	for _, op := range ops {
		if op.Op != "test" && strings.Count(op.Path, "/") > 2 {
			paths[op.Path] = true
		}
	}
	return paths
}

// flip changes one value: an absent one appears, a present one becomes another or goes.
func flip(have m, key string) m {
	if have == nil {
		have = m{}
	}
	if v, ok := have[key]; ok && len(v)%2 == 0 {
		delete(have, key)
	} else {
		have[key] = v + "!"
	}
	return have
}

func model(node *corev1.Node, d Desired) *corev1.Node {
	want := node.DeepCopy()
	if want.Labels == nil {
		want.Labels = m{}
	}
	if want.Annotations == nil {
		want.Annotations = m{}
	}
	wished := maps.Clone(d.Annotations)
	maps.DeleteFunc(wished, func(k, _ string) bool { return reserved(k) })
	for k := range strings.SplitSeq(node.Annotations[LabelsFromMachineAnnotation], ",") {
		delete(want.Labels, k)
	}
	for k := range strings.SplitSeq(node.Annotations[AnnotationsFromMachineAnnotation], ",") {
		if !reserved(k) {
			delete(want.Annotations, k)
		}
	}
	maps.Copy(want.Labels, d.Labels)
	maps.Copy(want.Annotations, wished)
	if d.Owner != (Owner{}) {
		for _, a := range d.Owner.annotations() {
			delete(want.Annotations, a.key)
			if a.value != "" {
				want.Annotations[a.key] = a.value
			}
		}
	}
	for name, keys := range map[string]m{LabelsFromMachineAnnotation: d.Labels, AnnotationsFromMachineAnnotation: wished} {
		list := strings.Join(slices.Sorted(maps.Keys(keys)), ",")
		if want.Annotations[name] != list {
			want.Annotations[name] = list
		}
	}
	want.Spec.Taints = slices.DeleteFunc(want.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == UninitializedTaintKey && t.Effect == UninitializedTaintEffect
	})
	return want
}

var (
	someKeys   = []string{"d/a", "d/b", "d/c~x", "d~1/e", "plain", "foreign/y"}
	someValues = []string{"", "1", "22", "<&>\"\\\u2028é", "{}", "null"}
)

func randomMap(rng *rand.Rand, extra ...string) m {
	if rng.Intn(4) == 0 {
		return nil
	}
	picked := m{}
	for _, k := range append(slices.Clone(someKeys), extra...) {
		if rng.Intn(2) == 0 {
			picked[k] = someValues[rng.Intn(len(someValues))]
		}
	}
	return picked
}

func randomNode(rng *rand.Rand) *corev1.Node {
	n := newNode(randomMap(rng), randomMap(rng, MachineAnnotation, OwnerKindAnnotation))
	for _, name := range []string{LabelsFromMachineAnnotation, AnnotationsFromMachineAnnotation} {
		if n.Annotations != nil && rng.Intn(3) > 0 {
			n.Annotations[name] = strings.Join(slices.Sorted(maps.Keys(randomMap(rng, MachineAnnotation))), ",")
		}
	}
	taints := []corev1.Taint{
		{Key: "a", Value: "<v>", Effect: "NoExecute"}, uninitialized, {Key: UninitializedTaintKey, Effect: "NoExecute"},
	}
	for _, taint := range taints {
		if rng.Intn(2) == 0 {
			n.Spec.Taints = append(n.Spec.Taints, taint)
		}
	}
	return n
}

func randomDesired(rng *rand.Rand) Desired {
	d := Desired{Labels: randomMap(rng), Annotations: randomMap(rng, MachineAnnotation, LabelsFromMachineAnnotation)}
	if rng.Intn(3) > 0 {
		d.Owner = Owner{Machine: "m", ClusterName: someValues[rng.Intn(3)], OwnerKind: someValues[rng.Intn(3)]}
	}
	return d
}
