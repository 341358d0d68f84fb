package propagate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func noSchedule(key, value string) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}
}

func TestTaintsFollowTheirPropagation(t *testing.T) {
	notReady := noSchedule("node.kubernetes.io/not-ready", "")
	type taints = []corev1.Taint
	done := m{TaintsFromMachineAnnotation: ""}
	cases := []struct {
		name        string
		reason      string
		annotations m
		have        taints
		want        []Taint
		without     taints
		wantTaints  taints
		wantLedger  string
	}{
		{
			name: "a new Node gets both kinds while it loses the startup taint", have: taints{uninitialized, notReady},
			want:       []Taint{{noSchedule("a", "1"), Always}, {noSchedule("o", ""), OnInitialization}, {noSchedule("d", ""), ""}},
			wantTaints: taints{notReady, noSchedule("a", "1"), noSchedule("o", ""), noSchedule("d", "")},
			wantLedger: "a:NoSchedule,d:NoSchedule",
		},
		{
			name:   "a taint that the Node registered with is adopted, and its value corrected",
			reason: "a bootstrap provider's taint is like anybody's (proposal 20250513)", have: taints{noSchedule("a", "old"), uninitialized},
			want: []Taint{{noSchedule("a", "1"), Always}}, wantTaints: taints{noSchedule("a", "1")}, wantLedger: "a:NoSchedule",
		},
		{
			name: "a taint with Always comes back", annotations: m{TaintsFromMachineAnnotation: "a:NoSchedule"},
			have: taints{notReady}, want: []Taint{{noSchedule("a", "1"), Always}},
			wantTaints: taints{notReady, noSchedule("a", "1")}, wantLedger: "a:NoSchedule",
		},
		{
			name: "a taint for new Nodes does not come back", annotations: done,
			have: taints{notReady}, want: []Taint{{noSchedule("o", ""), OnInitialization}}, wantTaints: taints{notReady},
		},
		{
			name:   "a Node that was set up before taints were propagated is not new",
			reason: "a taint that evicts must not come over a fleet that is taken over", annotations: m{LabelsFromMachineAnnotation: ""},
			want:       []Taint{{noSchedule("o", ""), OnInitialization}, {noSchedule("a", ""), Always}},
			wantTaints: taints{noSchedule("a", "")}, wantLedger: "a:NoSchedule",
		},
		{
			name: "a taint for new Nodes that is there already is given only once all the same", have: taints{noSchedule("o", "")},
			want:   []Taint{{noSchedule("o", ""), OnInitialization}},
			reason: "a user who removes it must not see it again", wantTaints: taints{noSchedule("o", "")},
		},
		{
			name:        "a taint with Always that the owner drops is removed; one with another effect stays",
			annotations: m{TaintsFromMachineAnnotation: "a:NoSchedule,b:NoSchedule"},
			have:        taints{noSchedule("b", ""), {Key: "a", Effect: "NoExecute"}, noSchedule("a", "x")},
			want:        []Taint{{noSchedule("b", ""), Always}}, wantTaints: taints{noSchedule("b", ""), {Key: "a", Effect: "NoExecute"}},
			wantLedger: "b:NoSchedule",
		},
		{
			name:        "a taint that changes from Always to OnInitialization stays and is forgotten",
			annotations: m{TaintsFromMachineAnnotation: "a:NoSchedule"},
			have:        taints{noSchedule("a", "")},
			want:        []Taint{{noSchedule("a", ""), OnInitialization}},
			wantTaints:  taints{noSchedule("a", "")},
		},
		{
			name: "a propagation that is not known leaves the taint alone", annotations: m{TaintsFromMachineAnnotation: "a:NoSchedule"},
			have: taints{noSchedule("a", "")}, want: []Taint{{noSchedule("a", "new"), "Sometimes"}, {noSchedule("b", ""), "Sometimes"}},
			wantTaints: taints{noSchedule("a", "")},
		},
		{
			name:        "entries of a ledger that are no taints are dropped",
			annotations: m{TaintsFromMachineAnnotation: "a,:,b:NoSchedule:x,,b:NoSchedule"},
			have:        taints{noSchedule("a", ""), noSchedule("b", "")}, wantTaints: taints{noSchedule("a", "")},
		},
		{name: "a startup taint cannot be wanted", have: taints{uninitialized}, want: []Taint{{uninitialized, Always}}},
		{
			name: "a taint in WithoutTaints is removed, whichever component added it", annotations: done,
			have: taints{noSchedule("state", "theirs"), notReady}, without: taints{noSchedule("state", "")}, wantTaints: taints{notReady},
		},
		{
			name: "of two taints with one key and effect the first counts", annotations: done,
			want: []Taint{{noSchedule("a", "1"), Always}, {noSchedule("a", "2"), Always}}, wantTaints: taints{noSchedule("a", "1")},
			wantLedger: "a:NoSchedule",
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			node := newNode(m{"l": "1"}, tc.annotations, tc.have...)
			desired := Desired{Taints: tc.want, WithoutTaints: tc.without}
			patch, changed := ClusterAPI().Diff(node, desired)
			if changed {
				var err error
				node, err = apply(t, node, patch.JSON())
				require.NoError(t, err, patch.String())
			}
			if diff := cmp.Diff(tc.wantTaints, node.Spec.Taints, equalEmpty); diff != "" {
				t.Errorf("%s\ntaints (-want +got):\n%s", tc.reason, diff)
			}
			ledger, found := node.Annotations[TaintsFromMachineAnnotation]
			require.True(t, found)
			require.Equal(t, tc.wantLedger, ledger)
			again, changed := ClusterAPI().Diff(node, desired)
			require.False(t, changed, again.String())
		})
	}
}

// Without a ledger only the startup taint distinguishes a new Node from one that was set up.
func TestWithoutALedgerANodeIsNewWhileItHasAStartupTaint(t *testing.T) {
	policy := ClusterAPI()
	policy.Ledger = Ledger{}
	desired := Desired{Taints: []Taint{{noSchedule("o", ""), OnInitialization}}}
	_, changed := policy.Diff(newNode(nil, nil), desired)
	require.False(t, changed)
	patch, changed := policy.Diff(newNode(nil, nil, uninitialized), desired)
	require.True(t, changed)
	got, err := apply(t, newNode(nil, nil, uninitialized), patch.JSON())
	require.NoError(t, err)
	require.Equal(t, []corev1.Taint{noSchedule("o", "")}, got.Spec.Taints)
}

// Kubernetes' controllers change taints of a Node that joins at the same moment as we do.
func TestOtherTaintsOfAJoiningNodeMayChangeMeanwhile(t *testing.T) {
	notReady := noSchedule("node.kubernetes.io/not-ready", "")
	node := newNode(m{"l": "1"}, m{"a": "1"}, uninitialized, notReady)
	patch, _ := ClusterAPI().Diff(node, Desired{Taints: []Taint{{noSchedule("a", ""), Always}}})
	for name, meanwhile := range map[string][]corev1.Taint{
		"it becomes ready":                   {uninitialized},
		"more are added":                     {uninitialized, notReady, {Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}},
		"ours gets a value":                  {{Key: uninitialized.Key, Value: "x", Effect: uninitialized.Effect}, notReady},
		"the one behind it is another's now": {uninitialized, noSchedule("theirs", "")},
	} {
		got, err := apply(t, newNode(m{"l": "1"}, m{"a": "1"}, meanwhile...), patch.JSON())
		require.NoError(t, err, name)
		want := append(append([]corev1.Taint{}, meanwhile[1:]...), noSchedule("a", ""))
		require.Empty(t, cmp.Diff(want, got.Spec.Taints), name)
	}
	_, err := apply(t, newNode(m{"l": "1"}, m{"a": "1"}, notReady, uninitialized), patch.JSON())
	require.Error(t, err, "ours stands elsewhere now")
}

func TestTheLedgerDoesNotDependOnTheOrderOfTaints(t *testing.T) {
	a, b := Taint{Taint: noSchedule("a", "")}, Taint{Taint: noSchedule("b", "")}
	evicts := Taint{Taint: corev1.Taint{Key: "b", Effect: corev1.TaintEffectNoExecute}}
	policy := &Policy{Ledger: Ledger{Taints: "ledger"}}
	for _, taints := range [][]Taint{{b, evicts, a, evicts}, {a, b, evicts}, {evicts, a, b}} {
		patch, _ := policy.Diff(newNode(nil, nil), Desired{Taints: taints})
		require.Contains(t, patch.String(), `"a:NoSchedule,b:NoExecute,b:NoSchedule"`)
	}
}
