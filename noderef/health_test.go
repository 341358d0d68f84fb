package noderef

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestJudge(t *testing.T) {
	rules := HealthRules{
		Conditions: []ConditionRule{
			{Type: corev1.NodeReady, Healthy: corev1.ConditionTrue},
			{Type: "Disk", Healthy: corev1.ConditionFalse, Unknown: Unhealthy, Missing: Healthy},
		},
		Starting: []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoSchedule}},
	}
	node := func(ready, disk corev1.ConditionStatus) *corev1.Node {
		n := newNode("n", "u", "")
		if ready != "" {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: ready, Reason: "R", Message: "m"})
		}
		if disk != "" {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Disk", Status: disk})
		}
		return n
	}
	starting := node("True", "False")
	starting.Spec.Taints = []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoExecute},
		{Key: "starting", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	ready := func(h Health, status corev1.ConditionStatus) Finding {
		return Finding{Type: corev1.NodeReady, Health: h, Status: status, Reason: "R", Message: "m"}
	}
	cases := []struct {
		name string
		node *corev1.Node
		want Report
	}{
		{"all is well", node("True", "False"), Report{Health: Healthy}},
		{"a condition that may be missing is missing", node("True", ""), Report{Health: Healthy}},
		{"not ready", node("False", "False"), Report{Health: Unhealthy, Findings: []Finding{ready(Unhealthy, "False")}}},
		{"not heard of", node("Unknown", "False"), Report{Findings: []Finding{ready(HealthUnknown, "Unknown")}}},
		{"a status that there is not", node("Maybe", "False"), Report{Findings: []Finding{ready(HealthUnknown, "Maybe")}}},
		{"one is unknown and that is bad", node("True", "Unknown"),
			Report{Health: Unhealthy, Findings: []Finding{{Type: "Disk", Health: Unhealthy, Status: "Unknown"}}}},
		{"bad news wins over no news", node("Unknown", "True"), Report{Health: Unhealthy, Findings: []Finding{
			ready(HealthUnknown, "Unknown"), {Type: "Disk", Health: Unhealthy, Status: "True"},
		}}},
		{"Ready is missing", node("", "False"), Report{Findings: []Finding{{Type: corev1.NodeReady}}}},
		{"nothing was reported", node("", ""), Report{Findings: []Finding{{Type: corev1.NodeReady}}}},
		{"no Node", nil, Report{}},
		{"a Node that is not set up", starting, Report{Health: Healthy, Starting: true}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, rules.Judge(tc.node), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Judge() (-want +got):\n%s", diff)
			}
		})
	}
	well := node("True", "False")
	require.Zero(t, testing.AllocsPerRun(100, func() { rules.Judge(well) }))
	require.Equal(t, HealthUnknown, HealthRules{}.Judge(node("", "")).Health, "who says nothing is not healthy")
}

func TestClusterAPIsRulesIncludePressure(t *testing.T) {
	n := newNode("n", "u", "")
	for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionFalse})
	}
	require.Equal(t, HealthUnknown, ClusterAPIHealth().Judge(n).Health)
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
	require.Equal(t, Healthy, ClusterAPIHealth().Judge(n).Health)
	n.Status.Conditions[1].Status = corev1.ConditionTrue
	require.Equal(t, Unhealthy, ClusterAPIHealth().Judge(n).Health)
}

func TestEveryHealthHasAName(t *testing.T) {
	for h := HealthUnknown; h <= Unhealthy; h++ {
		require.NotContains(t, h.String(), "(")
	}
	require.Equal(t, "Health(99)", Health(99).String())
}

func TestReady(t *testing.T) {
	n := fullNode()
	if !Ready(n) {
		t.Error("a Node whose Ready condition is True is ready")
	}
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	if Ready(n) || Ready(nil) || Ready(&corev1.Node{}) {
		t.Error("Unknown, no Node and no condition are not ready")
	}
}

func TestATaintIsFoundAmongOthers(t *testing.T) {
	taint := func(key string) corev1.Taint { return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule} }
	a, b, c := taint("a"), taint("b"), taint("c")
	require.True(t, hasAny([]corev1.Taint{a, b}, []corev1.Taint{b}))
	require.True(t, hasAny([]corev1.Taint{b}, []corev1.Taint{a, b}))
	require.False(t, hasAny([]corev1.Taint{a, b}, []corev1.Taint{c}))
	require.False(t, hasAny([]corev1.Taint{a}, nil))
}
