package kubectl

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubectldrain "k8s.io/kubectl/pkg/drain"

	"github.com/machinist-dev/machinist/drain"
)

func textOf(v drain.Verdict) string {
	return fmt.Sprintf("%s %s %d %q %q", v.Action, v.Reason, v.Order, v.Message, v.Warnings)
}

func deletesWithError(message string) kubectldrain.PodDeleteStatus {
	return kubectldrain.PodDeleteStatus{Delete: true, Reason: kubectldrain.PodDeleteStatusTypeError, Message: message}
}

func TestFromFilter(t *testing.T) {
	evict := drain.Verdict{Action: drain.Evict, Order: 7, Reason: "Mine", Message: "so far", Warnings: []string{"first"}}
	for name, tc := range map[string]struct {
		status kubectldrain.PodDeleteStatus
		want   string
	}{
		"okay leaves the verdict as it is": {kubectldrain.MakePodDeleteStatusOkay(), textOf(evict)},
		"skip ignores":                     {kubectldrain.MakePodDeleteStatusSkip(), `Ignore PodFilter 7 "" []`},
		"a warning adds up":                {kubectldrain.MakePodDeleteStatusWithWarning(true, "w"), `Evict Mine 7 "so far" ["first" "w"]`},
		"a warning without delete ignores": {kubectldrain.MakePodDeleteStatusWithWarning(false, "w"), `Ignore PodFilter 7 "w" ["w"]`},
		"an error denies":                  {kubectldrain.MakePodDeleteStatusWithError("mine"), `Deny PodFilter 7 "cannot delete mine" []`},
		"one without words": {kubectldrain.MakePodDeleteStatusWithError(""),
			`Deny PodFilter 7 "cannot delete unexpected error" []`},
		// kubectl prints the error and stops when the filter is the last one, and evicts when it is not.
		"an error that deletes denies": {deletesWithError("mine"), `Deny PodFilter 7 "cannot delete mine" []`},
		// kubectl leaves such pods out without a word.
		"an empty status ignores": {kubectldrain.PodDeleteStatus{}, `Ignore PodFilter 7 "" []`},
	} {
		t.Run(name, func(t *testing.T) {
			rule := fromFilter(func(corev1.Pod) kubectldrain.PodDeleteStatus { return tc.status })
			got, err := rule(&corev1.Pod{}, evict)
			require.NoError(t, err)
			require.Equal(t, tc.want, textOf(got))
			require.Equal(t, []string{"first"}, evict.Warnings, "the verdict that was passed in")
			ignored := drain.Verdict{Action: drain.Ignore, Reason: drain.ReasonMirrorPod}
			got, err = rule(&corev1.Pod{}, ignored)
			require.NoError(t, err)
			require.Equal(t, ignored, got, "a filter is not asked about ignored Pods")
		})
	}
}

// oraclePod is a Pod on the Node of the oracle.
func oraclePod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: oracleNode}}
	pod.Namespace, pod.Name = "shop", "web"
	change(pod)
	return pod
}

// The known differences, so that the documentation stays true.
func TestDifferences(t *testing.T) {
	t.Run("a nil filter denies", func(t *testing.T) {
		o := Options{KubectlOptions: drain.KubectlOptions{Force: true}, AdditionalFilters: []kubectldrain.PodFilter{nil}}
		require.Equal(t, `Deny RuleFailed 0 "a nil PodFilter is among the drain rules: leave it out" []`,
			textOf(drain.Decide(&corev1.Pod{}, Rules(o))))
	})
	t.Run("an error is not overwritten by the next filter", func(t *testing.T) {
		pod := oraclePod(func(*corev1.Pod) {})
		o := Options{KubectlOptions: drain.KubectlOptions{Force: true}, AdditionalFilters: []kubectldrain.PodFilter{
			func(corev1.Pod) kubectldrain.PodDeleteStatus { return deletesWithError("Pods of mine") },
			func(corev1.Pod) kubectldrain.PodDeleteStatus { return kubectldrain.MakePodDeleteStatusOkay() },
		}}
		theirs := askKubectl(&o, "", pod)
		require.Empty(t, theirs.errors, "kubectl has changed its mind: change fromFilter")
		require.Len(t, theirs.deletes, 1)
		require.Equal(t, `Deny PodFilter 0 "cannot delete Pods of mine" []`, textOf(drain.Decide(pod, Rules(o))))
	})
	t.Run("finished Pods of DaemonSets go, unless they are judged", func(t *testing.T) {
		pod := oraclePod(func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.OwnerReferences = append(p.OwnerReferences, drawOwner(&bits{}))
			p.OwnerReferences[0].Controller = new(true)
		})
		o := Options{KubectlOptions: drain.KubectlOptions{IgnoreAllDaemonSets: true, Force: true, DeleteEmptyDirData: true}}
		require.Len(t, askKubectl(&o, "", pod).deletes, 1, "kubectl has changed its mind: change KubectlOptions")
		got := drain.Decide(pod, Rules(o))
		require.Equal(t, []any{drain.Evict, drain.ReasonFinished}, []any{got.Action, got.Reason})
		o.JudgeFinishedDaemonSetPods = true
		got = drain.Decide(pod, Rules(o))
		require.Equal(t, []any{drain.Ignore, drain.ReasonDaemonSetPod}, []any{got.Action, got.Reason})
	})
	t.Run("lost data is warned about also where kubectl is silent", func(t *testing.T) {
		pod := oraclePod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		})
		o := Options{KubectlOptions: drain.KubectlOptions{Force: true, DeleteEmptyDirData: true}}
		const unmanaged = "deleting Pods that declare no controller"
		require.Equal(t, unmanaged, warningOf(askKubectl(&o, "", pod), pod), "kubectl has changed its mind: change KubectlRules")
		require.Equal(t, []string{"deleting Pods with local storage", unmanaged}, drain.Decide(pod, Rules(o)).Warnings)
	})
}

func TestRulesKeepOptions(t *testing.T) {
	additional := make([]drain.Rule, 1, 4)
	additional[0] = func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) { return drain.Verdict{}, nil }
	o := Options{AdditionalFilters: []kubectldrain.PodFilter{nil}}
	o.Additional = additional
	Rules(o)
	require.Len(t, o.Additional, 1)
	require.Nil(t, o.Additional[:2][1], "the caller's slice was written to")
}
