package kubectl

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kubectldrain "k8s.io/kubectl/pkg/drain"

	"github.com/machinist-dev/machinist/drain"
)

func TestFromFilter(t *testing.T) {
	evict := drain.Verdict{Action: drain.Evict, Order: 7, Reason: "Mine", Message: "so far", Warnings: []string{"first"}}
	with := func(change func(*drain.Verdict)) drain.Verdict {
		v := evict
		change(&v)
		return v
	}
	cases := map[string]struct {
		reason string
		status kubectldrain.PodDeleteStatus
		want   drain.Verdict
	}{
		"okay leaves the verdict as it is": {status: kubectldrain.MakePodDeleteStatusOkay(), want: evict},
		"skip ignores": {
			status: kubectldrain.MakePodDeleteStatusSkip(),
			want: with(func(v *drain.Verdict) {
				v.Action, v.Reason, v.Message, v.Warnings = drain.Ignore, ReasonPodFilter, "", nil
			}),
		},
		"a warning adds up": {
			status: kubectldrain.MakePodDeleteStatusWithWarning(true, "second"),
			want:   with(func(v *drain.Verdict) { v.Warnings = []string{"first", "second"} }),
		},
		"a warning without delete ignores": {
			status: kubectldrain.MakePodDeleteStatusWithWarning(false, "second"),
			want: with(func(v *drain.Verdict) {
				v.Action, v.Reason, v.Message, v.Warnings = drain.Ignore, ReasonPodFilter, "second", []string{"second"}
			}),
		},
		"an error denies": {
			status: kubectldrain.MakePodDeleteStatusWithError("Pods of mine"),
			want: with(func(v *drain.Verdict) {
				v.Action, v.Reason, v.Message, v.Warnings = drain.Deny, ReasonPodFilter, "cannot delete Pods of mine", nil
			}),
		},
		"an error without words denies": {
			status: kubectldrain.MakePodDeleteStatusWithError(""),
			want: with(func(v *drain.Verdict) {
				v.Action, v.Reason, v.Message, v.Warnings = drain.Deny, ReasonPodFilter, "cannot delete unexpected error", nil
			}),
		},
		"an error that says delete denies": {
			reason: "kubectl prints the error and stops when the filter is the last one, and evicts when it is not",
			status: kubectldrain.PodDeleteStatus{Delete: true, Reason: kubectldrain.PodDeleteStatusTypeError, Message: "Pods of mine"},
			want: with(func(v *drain.Verdict) {
				v.Action, v.Reason, v.Message, v.Warnings = drain.Deny, ReasonPodFilter, "cannot delete Pods of mine", nil
			}),
		},
		"an empty status ignores": {
			reason: "kubectl leaves such pods out without a word",
			want: with(func(v *drain.Verdict) {
				v.Action, v.Reason, v.Message, v.Warnings = drain.Ignore, ReasonPodFilter, "", nil
			}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := fromFilter(func(corev1.Pod) kubectldrain.PodDeleteStatus { return tc.status })(&corev1.Pod{}, evict)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff([]string{"first"}, evict.Warnings); diff != "" {
				t.Errorf("the verdict that was passed in changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromFilter_IsNotAskedAboutIgnoredPods(t *testing.T) {
	rule := fromFilter(func(corev1.Pod) kubectldrain.PodDeleteStatus {
		t.Error("the filter was asked")
		return kubectldrain.MakePodDeleteStatusWithError("late")
	})
	ignored := drain.Verdict{Action: drain.Ignore, Reason: drain.ReasonMirrorPod}
	got, err := rule(&corev1.Pod{}, ignored)
	if diff := cmp.Diff(ignored, got); err != nil || diff != "" {
		t.Errorf("error %v, verdict (-want +got):\n%s", err, diff)
	}
}

func TestRules_ANilFilterDeniesAndSaysSo(t *testing.T) {
	got := drain.Decide(&corev1.Pod{}, Rules(Options{
		KubectlOptions: drain.KubectlOptions{Force: true}, AdditionalFilters: []kubectldrain.PodFilter{nil},
	}))
	if got.Action != drain.Deny || got.Reason != drain.ReasonRuleFailed ||
		got.Message != "a nil PodFilter is among the drain rules: leave it out" {
		t.Errorf("got %+v", got)
	}
}

func TestRules_AnErrorIsNotOverwrittenByTheNextFilter(t *testing.T) {
	// kubectl lets the last filter decide, so the pod would go.
	sayDelete := kubectldrain.PodDeleteStatus{Delete: true, Reason: kubectldrain.PodDeleteStatusTypeError, Message: "Pods of mine"}
	o := Options{
		KubectlOptions: drain.KubectlOptions{Force: true},
		AdditionalFilters: []kubectldrain.PodFilter{
			func(corev1.Pod) kubectldrain.PodDeleteStatus { return sayDelete },
			func(corev1.Pod) kubectldrain.PodDeleteStatus { return kubectldrain.MakePodDeleteStatusOkay() },
		},
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Spec.NodeName = "shop", "web", oracleNode
	if theirs := askKubectl(&o, "", pod); len(theirs.errors) > 0 || len(theirs.deletes) != 1 {
		t.Errorf("kubectl has changed its mind, say so in fromFilter: %+v", theirs)
	}
	if got := drain.Decide(pod, Rules(o)); got.Action != drain.Deny || got.Message != "cannot delete Pods of mine" {
		t.Errorf("got %+v", got)
	}
}

func TestRules_DoNotChangeTheOptions(t *testing.T) {
	additional := make([]drain.Rule, 1, 4)
	additional[0] = func(*corev1.Pod, drain.Verdict) (drain.Verdict, error) { return drain.Verdict{}, nil }
	o := Options{AdditionalFilters: []kubectldrain.PodFilter{nil}}
	o.Additional = additional
	Rules(o)
	if len(o.Additional) != 1 || o.Additional[:2][1] != nil {
		t.Error("the caller's slice was written to")
	}
}

// The known differences, so that the documentation stays true.

func TestRules_FinishedDaemonSetPodsAreEvictedAsKubectlDoesUnlessJudged(t *testing.T) {
	yes := true
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}
	pod.Namespace, pod.Name, pod.Spec.NodeName = "shop", "agent-1", oracleNode
	pod.OwnerReferences = append(pod.OwnerReferences, drawOwner(&bits{}))
	pod.OwnerReferences[0].Controller = &yes
	o := Options{KubectlOptions: drain.KubectlOptions{IgnoreAllDaemonSets: true, Force: true, DeleteEmptyDirData: true}}
	if theirs := askKubectl(&o, "", pod); len(theirs.deletes) != 1 {
		t.Errorf("kubectl has changed its mind, say so in KubectlOptions: %+v", theirs)
	}
	if got := drain.Decide(pod, Rules(o)); got.Action != drain.Evict || got.Reason != drain.ReasonFinished {
		t.Errorf("as kubectl: got %+v", got)
	}
	o.JudgeFinishedDaemonSetPods = true
	if got := drain.Decide(pod, Rules(o)); got.Action != drain.Ignore || got.Reason != drain.ReasonDaemonSetPod {
		t.Errorf("judged: got %+v", got)
	}
}

func TestRules_WarnOfLostDataAlsoWhereKubectlIsSilent(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: oracleNode, Volumes: []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}}}
	pod.Namespace, pod.Name = "shop", "scratch"
	o := Options{KubectlOptions: drain.KubectlOptions{Force: true, DeleteEmptyDirData: true}}
	if theirs := warningOf(askKubectl(&o, "", pod), pod); theirs != "deleting Pods that declare no controller" {
		t.Errorf("kubectl has changed its mind, say so in KubectlRules: it warns of %q", theirs)
	}
	want := []string{"deleting Pods with local storage", "deleting Pods that declare no controller"}
	if diff := cmp.Diff(want, drain.Decide(pod, Rules(o)).Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
