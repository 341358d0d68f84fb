package apitest

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func updateCases() []Case {
	return []Case{
		{"an update of an old version is a Conflict", "lost updates", updateStale},
		{"an update without a version needs a kind that allows it", "custom kinds do not", updateUnconditional},
		{"an update with another UID is a Conflict that names the precondition", "a name may belong to another object by now", updateForeign},
		{"an update that changes nothing keeps the version", "no write, no event", updateNoop},
		{"only changes of the wanted state count as generations", "observedGeneration", updateGeneration},
		{"without a status subresource every change outside metadata is a generation", "embedders' older CRDs", updateGenerationPlain},
		{"an object cannot be renamed", "the URL decides", updateRename},
		{"an update cannot set a deletion timestamp", "only a delete can", updateDeletion},
		{"an immutable ConfigMap or Secret keeps its data and stays immutable", "rotation makes new ones", updateImmutable},
		{"a Secret keeps its type", "bootstrap data and kubeconfigs are told apart by it", updateSecretType},
		{"a pod's spec does not change but for images, and for tolerations that are added", "a pod never moves", updatePodSpec},
		{"system fields survive an update that leaves them out", "creation time and UID", updateSystemFields},
	}
}

func updateStale(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "stale")
	old := cm.DeepCopy()
	cm.Data["k"] = "new"
	old.Data["k"] = "late"
	e.must(e.Client.Update(ctx, cm))
	e.must(refusal{code: 409, reason: metav1.StatusReasonConflict, text: "the object has been modified",
		kind: "configmaps"}.check(e.Client.Update(ctx, old)))
}

func updateUnconditional(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "free")
	cm.ResourceVersion, cm.Data["k"] = "", "new"
	e.must(e.Client.Update(ctx, cm))
	obj := e.custom(ctx, withStatus, "bound")
	obj.SetResourceVersion("")
	e.must(refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "metadata.resourceVersion"}.check(e.Client.Update(ctx, obj)))
}

func updateForeign(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "foreign")
	cm.UID = "22222222-2222-4222-8222-222222222222"
	e.must(refusal{code: 409, reason: metav1.StatusReasonConflict,
		text: "Precondition failed: UID in precondition"}.check(e.Client.Update(ctx, cm)))
}

func updateNoop(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "same")
	version := cm.ResourceVersion
	e.must(e.Client.Update(ctx, cm))
	e.must(e.Client.Patch(ctx, cm, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"k":"v"},"metadata":{"labels":null}}`))))
	e.must(e.read(ctx, cm))
	e.must(equal("version", cm.ResourceVersion, version))
}

func updateGeneration(ctx context.Context, e Env) {
	obj := e.custom(ctx, withStatus, "counted")
	obj.SetLabels(map[string]string{"a": "b"})
	e.must(e.Client.Update(ctx, obj), equal("generation after a label", obj.GetGeneration(), 1))
	setField(obj, "x", "status", "phase")
	e.must(e.Client.Status().Update(ctx, obj), equal("generation after a status", obj.GetGeneration(), 1))
	setField(obj, int64(2), "spec", "size")
	e.must(e.Client.Update(ctx, obj), equal("generation after the spec", obj.GetGeneration(), 2))
	setField(obj, "x", "other")
	e.must(e.Client.Update(ctx, obj), equal("generation after another field", obj.GetGeneration(), 3))
	obj.SetGeneration(9)
	obj.SetLabels(nil)
	e.must(e.Client.Update(ctx, obj), equal("generation after a client's own", obj.GetGeneration(), 3))
}

func updateGenerationPlain(ctx context.Context, e Env) {
	obj := e.custom(ctx, withoutStatus, "counted", func(u *unstructured.Unstructured) { setField(u, "start", "status", "phase") })
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	e.must(equal("status after create", phase, "start"))
	setField(obj, "x", "status", "phase")
	e.must(e.Client.Update(ctx, obj), equal("generation after a status", obj.GetGeneration(), 2))
	setField(obj, "y", "status", "phase")
	e.must(refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.Client.Status().Update(ctx, obj)))
}

func updateRename(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "named")
	err := e.Client.Patch(ctx, cm, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"name":"other"}}`)))
	e.must(refusal{code: 400, reason: metav1.StatusReasonBadRequest, text: "does not match the name on the URL"}.check(err))
}

func updateDeletion(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "kept")
	now := metav1.NewTime(time.Now())
	cm.DeletionTimestamp = &now
	e.must(refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "metadata.deletionTimestamp"}.check(e.Client.Update(ctx, cm)))
}

func updateSystemFields(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "bare")
	bare := e.configMap("bare")
	bare.Data["k"] = "new"
	e.must(e.Client.Update(ctx, bare))
	e.must(equal("UID", bare.UID, cm.UID), holds(bare.CreationTimestamp.Equal(&cm.CreationTimestamp), "the creation time changed"))
}

func updateImmutable(ctx context.Context, e Env) {
	cm := e.configMap("fixed")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "fixed", Namespace: e.Namespace}, Data: map[string][]byte{"k": []byte("v")}}
	refused := func(field string) refusal {
		return refusal{code: 422, reason: metav1.StatusReasonInvalid, cause: metav1.CauseTypeForbidden,
			text: field + ": Forbidden: field is immutable when `immutable` is set"}
	}
	e.must(e.Client.Create(ctx, cm), e.Client.Create(ctx, secret))
	for _, obj := range []client.Object{cm, secret} {
		changed := obj.DeepCopyObject().(client.Object)
		e.must(e.patch(ctx, obj, types.MergePatchType, `{"immutable":true}`))
		e.must(refused("data").check(e.patch(ctx, changed, types.MergePatchType, `{"data":{"k":null}}`)))
		e.must(refused("immutable").check(e.patch(ctx, changed, types.MergePatchType, `{"immutable":false}`)))
		e.must(e.patch(ctx, obj, types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`))
	}
	e.must(refused("binaryData").check(e.patch(ctx, cm.DeepCopy(), types.MergePatchType, `{"binaryData":{"b":"eA=="}}`)))
}

func updateSecretType(ctx context.Context, e Env) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "typed", Namespace: e.Namespace}}
	e.must(e.Client.Create(ctx, secret))
	err := e.patch(ctx, secret, types.MergePatchType, `{"type":"example.com/other"}`)
	invalid := refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "type: Invalid value", cause: metav1.CauseTypeFieldValueInvalid}
	e.must(invalid.check(err))
}

func updatePodSpec(ctx context.Context, e Env) {
	node := e.node(ctx, "n", false)
	pod := e.readyPod(ctx, "bound", node.Name, nil)
	forbidden := func(text, format string, args ...any) {
		err := e.patch(ctx, pod.DeepCopy(), types.StrategicMergePatchType, format, args...)
		e.must(refusal{code: 422, reason: metav1.StatusReasonInvalid, text: text, cause: metav1.CauseTypeForbidden}.check(err))
	}
	const others = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
	forbidden(others, `{"spec":{"nodeName":%q}}`, node.Name+"-other")
	forbidden(others, `{"spec":{"nodeName":null}}`)
	forbidden(others, `{"spec":{"terminationGracePeriodSeconds":7}}`)
	forbidden("spec.containers: Forbidden: pod updates may not add or remove containers",
		`{"spec":{"containers":[{"name":"d","image":"example.com/image:1"}]}}`)
	e.must(e.patch(ctx, pod, types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"c","image":"example.com/image:2"}]}}`))
	e.must(eventually(ctx, "a toleration to be added", func(ctx context.Context) (bool, error) {
		if err := e.read(ctx, pod); err != nil {
			return false, err
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "example.com/a", Operator: corev1.TolerationOpExists})
		err := e.Client.Update(ctx, pod)
		return err == nil, err
	}))
	e.must(equal("image", pod.Spec.Containers[0].Image, "example.com/image:2"))
}
