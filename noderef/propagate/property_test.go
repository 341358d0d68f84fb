package propagate

import (
	"maps"
	"math/rand"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

var equalEmpty = cmpopts.EquateEmpty()

// Random policies, Nodes and owners, with keys that overlap on purpose. A simple model in model_test.go computes the wanted
// state; one patch must reach it, and a second Diff must return nothing.
func TestPatchesReachTheDesiredStateAndNothingElse(t *testing.T) {
	rng := rand.New(rand.NewSource(7))
	changes := 0
	for range 3000 {
		policy, node, desired := randomPolicy(rng), randomNode(rng), randomDesired(rng)
		before := node.DeepCopy()
		want := model(policy, node, desired)

		patch, changed := policy.Diff(node, desired)
		require.Empty(t, cmp.Diff(before, node), "the Node is only read")
		if !changed {
			require.Empty(t, cmp.Diff(want, node, equalEmpty), "nothing to do is only said of a Node that is as it should be")
			continue
		}
		changes++
		got, err := apply(t, node, patch.JSON())
		require.NoError(t, err, patch.String())
		require.Empty(t, cmp.Diff(want, got, equalEmpty), patch.String())
		require.NotEmpty(t, cmp.Diff(node, got, equalEmpty), "a patch that changes nothing is a request too many: %s", patch)

		again, _ := policy.Diff(node, desired)
		require.Equal(t, patch.String(), again.String(), "equal input gives a byte-equal patch")
		more, changed := policy.Diff(got, desired)
		require.False(t, changed, "one patch does it all: %s, then %s", patch, more)
	}
	require.Greater(t, changes, 2000)
}

// If others write between our read and our patch, either the patch is rejected, or it makes its changes and their keys and
// taints stay as they wrote them.
func TestConcurrentWritersAreNeverOverwritten(t *testing.T) {
	rng := rand.New(rand.NewSource(11))
	applied, refused := 0, 0
	for range 3000 {
		policy, node, desired := randomPolicy(rng), randomNode(rng), randomDesired(rng)
		patch, changed := policy.Diff(node, desired)
		if !changed {
			continue
		}
		meanwhile := node.DeepCopy()
		disturb(rng, meanwhile)
		got, err := apply(t, meanwhile, patch.JSON())
		if err != nil {
			refused++
			continue
		}
		applied++
		touched := touchedBy(t, patch)
		sameBut(t, meanwhile.Labels, got.Labels, touched["labels"], patch)
		sameBut(t, meanwhile.Annotations, got.Annotations, touched["annotations"], patch)
		for _, taint := range meanwhile.Spec.Taints {
			if at := findTaint(got.Spec.Taints, taint.Key, taint.Effect); !touched["taints"][name(taint)] {
				require.GreaterOrEqual(t, at, 0, "%v was taken out: %s", taint, patch)
				require.Equal(t, taint.Value, got.Spec.Taints[at].Value, patch.String())
			}
		}
		for _, taint := range got.Spec.Taints {
			there := findTaint(meanwhile.Spec.Taints, taint.Key, taint.Effect) >= 0
			require.True(t, there || touched["taints"][name(taint)], "%v came from nowhere: %s", taint, patch)
		}
	}
	require.Greater(t, applied, 300)
	require.Greater(t, refused, 300)
}

func name(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }

func sameBut(t *testing.T, before, after m, touched map[string]bool, patch Patch) {
	t.Helper()
	except := func(k, _ string) bool { return touched[k] }
	before, after = maps.Clone(before), maps.Clone(after)
	maps.DeleteFunc(before, except)
	maps.DeleteFunc(after, except)
	require.Empty(t, cmp.Diff(before, after, equalEmpty), patch.String())
}

// touchedBy returns what a patch changes: keys of maps, and taints as "key:effect".
func touchedBy(t *testing.T, patch Patch) map[string]map[string]bool {
	t.Helper()
	touched := map[string]map[string]bool{"labels": {}, "annotations": {}, "taints": {}}
	for _, c := range patch.labels {
		touched["labels"][c.key] = true
	}
	for _, c := range patch.annotations {
		touched["annotations"][c.key] = true
	}
	for _, c := range patch.taints {
		touched["taints"][name(c.taint)] = true
	}
	return touched
}

// disturb makes random changes of other writers to a Node.
func disturb(rng *rand.Rand, n *corev1.Node) {
	for range 1 + rng.Intn(3) {
		switch rng.Intn(6) {
		case 0:
			n.Labels = flip(n.Labels, someKeys[rng.Intn(len(someKeys))])
		case 1:
			n.Annotations = flip(n.Annotations, someKeys[rng.Intn(len(someKeys))])
		case 2:
			n.Spec.Taints = slices.Insert(n.Spec.Taints, rng.Intn(len(n.Spec.Taints)+1), corev1.Taint{Key: "new", Effect: "NoSchedule"})
			n.Spec.Taints = slices.CompactFunc(n.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) })
		case 3:
			if i := rng.Intn(len(n.Spec.Taints) + 1); i < len(n.Spec.Taints) {
				n.Spec.Taints = slices.Delete(n.Spec.Taints, i, i+1)
			}
		case 4:
			n.Spec.Taints = append(n.Spec.Taints, someTaints[rng.Intn(len(someTaints))])
		case 5:
			n.ResourceVersion = "later"
			n.Spec.Unschedulable = true
		}
	}
}

// flip adds, changes or removes one value.
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

var (
	someKeys   = []string{"d/a", "d/b", "d/c~x", "d~1/e", "plain", "foreign/y"}
	someValues = []string{"", "1", "22", "<&>\"\\\u2028é", "{}", "null"}
	someTaints = []corev1.Taint{
		{Key: "a", Value: "<v>", Effect: "NoExecute"}, {Key: "a", Effect: "NoSchedule"}, {Key: "b", Value: "1", Effect: "NoSchedule"},
		{Key: "c", Effect: "PreferNoSchedule"}, {Key: UninitializedTaintKey, Effect: "NoExecute"}, uninitialized,
		{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"},
	}
)

func randomPolicy(rng *rand.Rand) *Policy {
	p := everything()
	switch rng.Intn(4) {
	case 0:
		p.Labels = []*regexp.Regexp{regexp.MustCompile(`^d`)}
	case 1:
		p.Ledger = Ledger{}
	}
	return p
}

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

func randomTaints(rng *rand.Rand) []corev1.Taint {
	taints := slices.Clone(someTaints)
	rng.Shuffle(len(taints), func(i, j int) { taints[i], taints[j] = taints[j], taints[i] })
	return taints[:rng.Intn(len(taints))]
}

func randomNode(rng *rand.Rand) *corev1.Node {
	n := newNode(randomMap(rng, "owner"), randomMap(rng, MachineAnnotation, OwnerKindAnnotation), randomTaints(rng)...)
	if n.Annotations == nil {
		return n
	}
	for _, name := range []string{LabelsFromMachineAnnotation, AnnotationsFromMachineAnnotation} {
		if rng.Intn(3) > 0 {
			n.Annotations[name] = strings.Join(slices.Sorted(maps.Keys(randomMap(rng, MachineAnnotation))), ",")
		}
	}
	if rng.Intn(2) == 0 {
		n.Annotations[TaintsFromMachineAnnotation] = taintList(randomTaints(rng))
	}
	return n
}

func randomDesired(rng *rand.Rand) Desired {
	d := Desired{Labels: randomMap(rng, "owner"), Annotations: randomMap(rng, MachineAnnotation, LabelsFromMachineAnnotation)}
	if rng.Intn(3) == 0 {
		d.AddLabels, d.AddAnnotations = randomMap(rng, "owner"), randomMap(rng, MachineAnnotation, LabelsFromMachineAnnotation)
	}
	if rng.Intn(3) > 0 {
		d.Owner = Owner{Name: "m", Cluster: someValues[rng.Intn(3)], ControllerKind: someValues[rng.Intn(3)]}
	}
	modes := []Propagation{"", Always, OnInitialization, WhenMissing, "Sometimes"}
	for _, taint := range append(randomTaints(rng), randomTaints(rng)...) {
		taint.Value += someValues[rng.Intn(2)]
		d.Taints = append(d.Taints, Taint{taint, modes[rng.Intn(len(modes))]})
	}
	if rng.Intn(3) == 0 {
		d.WithoutTaints = someTaints[:2]
	}
	return d
}
