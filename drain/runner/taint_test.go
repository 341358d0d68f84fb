package runner

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/drain"
)

func withReady(node *corev1.Node, status corev1.ConditionStatus) *corev1.Node {
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	return node
}

func tainted(node *corev1.Node) *corev1.Node {
	node.Annotations = map[string]string{OutOfServiceAnnotation: "true"}
	node.Spec.Taints = []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}, drain.OutOfServiceTaint()}
	return node
}

func outOfServicePolicy() *drain.Policy {
	return &drain.Policy{Unreachable: &drain.UnreachablePolicy{OutOfServiceTaint: true}}
}

const untaintPatch = `n application/json-patch+json [{"op":"test","path":"/metadata/uid","value":"uid-n"},` +
	`{"op":"remove","path":"/metadata/annotations/machinist.dev~1out-of-service","value":null},` +
	`{"op":"test","path":"/spec/taints/1/key","value":"node.kubernetes.io/out-of-service"},` +
	`{"op":"remove","path":"/spec/taints/1","value":null}]`

func TestStep_TaintsAConfirmedDeadNodeOnceAndOnlyWhenAsked(t *testing.T) {
	dead := func() *corev1.Node { return withReady(cordoned("n"), corev1.ConditionUnknown) }
	taint := `{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}`
	alone := `n application/json-patch+json [{"op":"test","path":"/metadata/uid","value":"uid-n"},` +
		`{"op":"test","path":"/metadata/annotations","value":null},{"op":"add","path":"/metadata/annotations","value":{}},` +
		`{"op":"add","path":"/metadata/annotations/machinist.dev~1out-of-service","value":"true"},` +
		`{"op":"test","path":"/spec/taints","value":null},{"op":"add","path":"/spec/taints","value":[` + taint + `]}]`
	beside := `n application/json-patch+json [{"op":"test","path":"/metadata/uid","value":"uid-n"},` +
		`{"op":"add","path":"/metadata/annotations/machinist.dev~1out-of-service","value":"true"},` +
		`{"op":"add","path":"/spec/taints/-","value":` + taint + `}]`
	other := dead()
	other.Annotations = map[string]string{"a": "b"}
	other.Spec.Taints = []corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoSchedule}}
	asked, off := outOfServicePolicy(), true
	cases := map[string]struct {
		req  Request
		want []string
	}{
		"asked and confirmed": {Request{Node: dead(), Policy: asked, PoweredOff: off}, []string{alone}},
		"beside others":       {Request{Node: other, Policy: asked, PoweredOff: off}, []string{beside}},
		"not confirmed":       {Request{Node: dead(), Policy: asked}, nil},
		"not asked for": {
			Request{Node: dead(), Policy: &drain.Policy{Unreachable: &drain.UnreachablePolicy{}}, PoweredOff: off}, nil},
		"no policy":                        {Request{Node: dead(), PoweredOff: off}, nil},
		"a Node that says it is ready":     {Request{Node: withReady(cordoned("n"), corev1.ConditionTrue), Policy: asked, PoweredOff: off}, nil},
		"the taint of another writer":      {Request{Node: tainted(dead()), Policy: asked, PoweredOff: off}, nil},
		"ours, and the Node is back":       {Request{Node: withReady(tainted(cordoned("n")), corev1.ConditionTrue)}, []string{untaintPatch}},
		"ours, and the Node is still dead": {Request{Node: tainted(dead())}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			before := tc.req.Node.DeepCopy()
			g.stepWith(tc.req)
			g.stepWith(tc.req) // the same look again
			if diff := cmp.Diff(tc.want, g.nodes.patches); diff != "" {
				t.Errorf("patches (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.req.Node); diff != "" {
				t.Errorf("the Node was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestStep_TheCordonComesBeforeTheTaint(t *testing.T) {
	g := newRig(t, nil)
	req := Request{Node: withReady(schedulable("n", "1"), corev1.ConditionUnknown), Policy: outOfServicePolicy(), PoweredOff: true}
	g.stepWith(req)
	require.Len(t, g.nodes.patches, 1)
	require.Contains(t, g.nodes.patches[0], "/spec/unschedulable")
}

func TestStep_ATaintThatDoesNotFitIsDecidedAnewAndAnOutageIsAnError(t *testing.T) {
	g := newRig(t, nil)
	req := Request{Node: withReady(cordoned("n"), corev1.ConditionUnknown), Policy: outOfServicePolicy(), PoweredOff: true}
	g.nodes.err = errors.New("connection refused")
	_, err := g.runner.Step(t.Context(), req)
	require.ErrorContains(t, err, "put out-of-service taint on node n")
	g.nodes.err = apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil)
	g.stepWith(req)
	require.Len(t, g.nodes.patches, 2, "an outage is tried again with the same look")
	g.stepWith(req)
	require.Len(t, g.nodes.patches, 2, "a refused patch waits for another look")
	req.Node = req.Node.DeepCopy()
	req.Node.ResourceVersion = "201"
	g.nodes.err = nil
	g.stepWith(req)
	require.Len(t, g.nodes.patches, 3)
}

func TestStep_PodsOfANodeOutOfServiceAreLeftToTheCluster(t *testing.T) {
	g, d := newDeletingRig(t, nil)
	tolerant := pod("n", "tolerant")
	tolerant.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	g.pods.put(pod("n", "a"), tolerant)
	req := Request{Node: tainted(withReady(cordoned("n"), corev1.ConditionUnknown)), Policy: outOfServicePolicy(), PoweredOff: true}
	g.start()
	defer g.stop()
	if got := g.stepWith(req); got.Done || got.Counts.Waiting != 1 {
		t.Fatalf("want to wait for the garbage collector, got %+v", got)
	}
	g.deleted(d, "tolerant 1s")
	g.pods.remove("n", "uid-a")
	g.pods.remove("n", "uid-tolerant")
	if got := g.stepWith(req); !got.Done {
		t.Fatalf("want done, got %+v", got)
	}
	require.Empty(t, g.evictor.names())
}

func TestCancel_TakesOurOwnTaintAwayWithTheCordon(t *testing.T) {
	g := newRig(t, nil)
	require.NoError(t, g.runner.Cancel(t.Context(), tainted(cordoned("n")), false))
	require.Empty(t, g.nodes.patches)
	require.NoError(t, g.runner.Cancel(t.Context(), tainted(cordoned("n")), true))
	require.Len(t, g.nodes.patches, 2)
	require.Equal(t, untaintPatch, g.nodes.patches[1])

	foreign := tainted(cordoned("n"))
	foreign.Annotations = nil
	require.NoError(t, g.runner.Cancel(t.Context(), foreign, true))
	require.Len(t, g.nodes.patches, 3, "only the cordon")
}
