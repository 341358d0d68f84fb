package apitest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func deleteCases() []Case {
	return []Case{
		{"a delete with another UID is a Conflict and deletes nothing", "every destructive call carries a UID", deleteForeign},
		{"a delete with an old version is a Conflict", "decided on what was read", deleteStale},
		{"an object with finalizers stays until the last one is removed", "clean-up comes first", deleteFinalizers},
		{"an object that is being deleted takes no new finalizer", "a finalizer that comes late is no protection", deleteNewFinalizer},
		{"an update that removes the last finalizer removes the object", "the answer has the version from before", deleteByUpdate},
		{"a pod without a node goes at once", "there is no kubelet to wait for", deleteUnboundPod},
		{"a bound pod gets its grace period", "the kubelet ends it", deleteBoundPod},
		{"deleting all of a selection deletes only it", "clean-up by label", deleteAllOf},
		{"a dry run of a delete deletes nothing", "previews", deleteDry},
		{"a delete refuses options that it does not know", "a typo is no dry run", deleteBadOptions},
	}
}

func deleteForeign(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "kept")
	err := e.Client.Delete(ctx, cm, client.Preconditions{UID: ptr.To[types.UID]("22222222-2222-4222-8222-222222222222")})
	e.must(
		refusal{code: 409, reason: metav1.StatusReasonConflict, text: "the UID in the precondition"}.check(err),
		e.read(ctx, cm), e.Client.Delete(ctx, cm, client.Preconditions{UID: &cm.UID}), e.gone(ctx, cm),
	)
}

func deleteStale(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "kept")
	old := cm.ResourceVersion
	cm.Data["k"] = "new"
	e.must(e.Client.Update(ctx, cm))
	err := e.Client.Delete(ctx, cm, client.Preconditions{ResourceVersion: &old})
	e.must(refusal{code: 409, reason: metav1.StatusReasonConflict, text: "the ResourceVersion in the precondition"}.check(err))
}

func deleteFinalizers(ctx context.Context, e Env) {
	obj := e.custom(ctx, withStatus, "held")
	e.must(e.patch(ctx, obj, types.MergePatchType, `{"metadata":{"finalizers":["example.com/a","example.com/b"]}}`))
	e.must(e.Client.Delete(ctx, obj))
	e.must(e.Client.Delete(ctx, obj))
	e.must(e.read(ctx, obj))
	e.must(holds(obj.GetDeletionTimestamp() != nil, "there is no deletion timestamp"),
		equal("grace", ptr.Deref(obj.GetDeletionGracePeriodSeconds(), -1), 0), equal("generation", obj.GetGeneration(), 2))
	e.must(e.patch(ctx, obj, types.MergePatchType, `{"metadata":{"finalizers":["example.com/b"]}}`))
	e.must(e.read(ctx, obj))
	e.must(e.patch(ctx, obj, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
	e.must(refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.read(ctx, obj)))
}

func deleteNewFinalizer(ctx context.Context, e Env) {
	cm := e.configMap("held")
	cm.Finalizers = []string{"example.com/a"}
	e.must(e.Client.Create(ctx, cm))
	e.must(e.Client.Delete(ctx, cm))
	err := e.patch(ctx, cm, types.MergePatchType, `{"metadata":{"finalizers":["example.com/a","example.com/b"]}}`)
	e.must(refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "no new finalizers can be added",
		cause: metav1.CauseTypeForbidden}.check(err))
	e.must(e.patch(ctx, cm, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
}

func deleteByUpdate(ctx context.Context, e Env) {
	cm := e.configMap("held")
	cm.Finalizers = []string{"example.com/a"}
	e.must(e.Client.Create(ctx, cm))
	e.must(e.Client.Delete(ctx, cm))
	e.must(e.read(ctx, cm))
	version := cm.ResourceVersion
	cm.Finalizers = nil
	e.must(e.Client.Update(ctx, cm))
	e.must(holds(cm.ResourceVersion == version && cm.DeletionTimestamp != nil && len(cm.Finalizers) == 0,
		"answered with %v, want the object as it was at version %s, without the finalizer", cm.ObjectMeta, version))
	e.must(refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.read(ctx, cm)))
}

func deleteUnboundPod(ctx context.Context, e Env) {
	pod := e.pod("unbound", nil)
	pod.Spec.NodeSelector = map[string]string{"conformance": "nowhere"}
	e.must(e.createPod(ctx, pod))
	e.must(e.Client.Delete(ctx, pod))
	e.must(refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.read(ctx, pod)))
}

func deleteBoundPod(ctx context.Context, e Env) {
	node := e.node(ctx, "n", false)
	pod := e.pod("bound", nil)
	pod.Spec.NodeName = node.Name
	pod.Finalizers = []string{"example.com/a"}
	e.must(e.createPod(ctx, pod))
	e.must(e.Client.Delete(ctx, pod, client.GracePeriodSeconds(20)))
	e.must(e.read(ctx, pod))
	e.must(holds(pod.DeletionTimestamp != nil, "there is no deletion timestamp"))
	e.must(e.patch(ctx, pod, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
	e.must(e.gone(ctx, pod))
}

func deleteAllOf(ctx context.Context, e Env) {
	for _, name := range []string{"a", "b", "c"} {
		cm := e.configMap(name)
		cm.Labels = map[string]string{"pick": map[string]string{"a": "yes", "b": "yes", "c": "no"}[name]}
		e.must(e.Client.Create(ctx, cm))
	}
	e.must(e.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(e.Namespace), client.MatchingLabels{"pick": "yes"}))
	var left corev1.ConfigMapList
	e.must(e.Client.List(ctx, &left, client.InNamespace(e.Namespace), client.HasLabels{"pick"}))
	e.must(equal("objects left", len(left.Items), 1))
}

func deleteDry(ctx context.Context, e Env) {
	cm, held := e.configMap("kept"), e.configMap("held")
	held.Finalizers = []string{"example.com/a"}
	e.must(e.Client.Create(ctx, cm))
	e.must(e.Client.Create(ctx, held))
	e.must(e.Client.Delete(ctx, cm, client.DryRunAll))
	e.must(e.Client.Delete(ctx, held, client.DryRunAll))
	e.must(e.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(e.Namespace), client.DryRunAll))
	e.must(e.read(ctx, cm), e.read(ctx, held))
	e.must(holds(held.DeletionTimestamp == nil, "the object with a finalizer is being deleted"))
	e.must(e.patch(ctx, held, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
}

func deleteBadOptions(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "kept")
	bad := refusal{code: 422, reason: metav1.StatusReasonInvalid, cause: metav1.CauseTypeFieldValueNotSupported}
	e.must(
		bad.check(e.Client.Delete(ctx, cm, &client.DeleteOptions{DryRun: []string{"Some"}})),
		bad.check(e.Client.Delete(ctx, cm, client.PropagationPolicy("Sideways"))),
		e.read(ctx, cm),
	)
}
