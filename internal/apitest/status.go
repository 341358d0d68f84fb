package apitest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func statusCases() []Case {
	return []Case{
		{"a write of the object leaves the status alone", "two writers, two endpoints", statusFromMain},
		{"a write of the status leaves the rest alone", "two writers, two endpoints", statusOnly},
		{"a status write checks version and UID like any other", "stale status writes", statusChecks},
		{"a pod's status is the server's at creation", "pods start Pending", statusOfPod},
	}
}

func phaseOf(u *unstructured.Unstructured) string {
	s, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	return s
}

func statusFromMain(ctx context.Context, e Env) {
	obj := e.custom(ctx, withStatus, "main")
	version := obj.GetResourceVersion()
	setField(obj, "x", "status", "phase")
	e.must(e.Client.Update(ctx, obj))
	e.must(equal("phase after update", phaseOf(obj), ""), equal("version", obj.GetResourceVersion(), version))
	e.must(e.patch(ctx, obj, types.MergePatchType, `{"status":{"phase":"x"},"spec":{"size":5}}`))
	e.must(equal("phase after patch", phaseOf(obj), ""), equal("generation", obj.GetGeneration(), 2))
}

func statusOnly(ctx context.Context, e Env) {
	obj := e.custom(ctx, withStatus, "status")
	setField(obj, "x", "status", "phase")
	setField(obj, int64(9), "spec", "size")
	obj.SetLabels(map[string]string{"a": "b"})
	obj.SetFinalizers([]string{"example.com/f"})
	e.must(e.Client.Status().Update(ctx, obj))
	size, _, _ := unstructured.NestedInt64(obj.Object, "spec", "size")
	e.must(equal("phase", phaseOf(obj), "x"), equal("size", size, 1), equal("labels", len(obj.GetLabels()), 0),
		equal("finalizers", len(obj.GetFinalizers()), 0), equal("generation", obj.GetGeneration(), 1))
}

func statusChecks(ctx context.Context, e Env) {
	obj := e.custom(ctx, withStatus, "checked")
	stale := obj.DeepCopy()
	setField(obj, "x", "status", "phase")
	e.must(e.Client.Status().Update(ctx, obj))
	setField(stale, "y", "status", "phase")
	conflict := e.Client.Status().Update(ctx, stale)
	obj.SetUID("22222222-2222-4222-8222-222222222222")
	foreign := e.Client.Status().Update(ctx, obj)
	e.must(
		refusal{code: 409, reason: metav1.StatusReasonConflict, text: "the object has been modified"}.check(conflict),
		refusal{code: 409, reason: metav1.StatusReasonConflict, text: "UID in precondition"}.check(foreign),
	)
}

func statusOfPod(ctx context.Context, e Env) {
	pod := e.pod("new", nil)
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.NodeSelector = map[string]string{"conformance": "nowhere"}
	e.must(e.createPod(ctx, pod))
	e.must(equal("phase", pod.Status.Phase, corev1.PodPending), equal("generation", pod.Generation, 1),
		equal("grace period", *pod.Spec.TerminationGracePeriodSeconds, 30),
		equal("restart policy", pod.Spec.RestartPolicy, corev1.RestartPolicyAlways))
}
