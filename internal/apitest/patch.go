package apitest

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func patchCases() []Case {
	return []Case{
		{"a merge patch removes with null and leaves the rest", "minimal documents", patchMerge},
		{"a patch with an old version is a Conflict", "patches that replace lists carry it", patchStale},
		{"a merge patch with another UID is Invalid", "it guards against a successor of the same name", patchForeign},
		{"a JSON patch whose test fails is Invalid without causes and changes nothing", "Node patches test what they saw", patchTest},
		{"a JSON patch test of null fails on an absent key only where the library says so", "taints may be absent", patchTestNull},
		{"a malformed JSON patch is BadRequest", "our bug, not the user's", patchMalformed},
		{"a strategic merge patch merges lists by key", "built-in kinds have it", patchStrategic},
		{"a custom kind has no strategic merge patch", "unsupported media type", patchStrategicCustom},
	}
}

func (e Env) patch(ctx context.Context, obj client.Object, t types.PatchType, format string, args ...any) error {
	return e.Client.Patch(ctx, obj, client.RawPatch(t, fmt.Appendf(nil, format, args...)))
}

func patchMerge(ctx context.Context, e Env) {
	cm := e.configMap("merged")
	cm.Data = map[string]string{"a": "1", "b": "2"}
	e.must(e.Client.Create(ctx, cm))
	e.must(e.patch(ctx, cm, types.MergePatchType, `{"data":{"a":null,"c":"3"}}`))
	e.must(e.read(ctx, cm))
	e.must(equal("data", fmt.Sprint(cm.Data), "map[b:2 c:3]"))
}

func patchStale(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "stale")
	old := cm.ResourceVersion
	e.must(e.patch(ctx, cm, types.MergePatchType, `{"data":{"k":"new"},"metadata":{"resourceVersion":%q}}`, old))
	err := e.patch(ctx, cm, types.MergePatchType, `{"data":{"k":"late"},"metadata":{"resourceVersion":%q}}`, old)
	e.must(refusal{code: 409, reason: metav1.StatusReasonConflict, text: "the object has been modified"}.check(err))
}

func patchForeign(ctx context.Context, e Env) {
	obj := e.custom(ctx, withStatus, "foreign")
	foreign := `{"metadata":{"uid":"22222222-2222-4222-8222-222222222222"},"status":{"phase":"x"},"spec":{"size":2}}`
	want := refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "metadata.uid", cause: metav1.CauseTypeFieldValueInvalid}
	raw := client.RawPatch(types.MergePatchType, []byte(foreign))
	e.must(e.patch(ctx, obj, types.MergePatchType, `{"metadata":{"uid":%q},"spec":{"size":3}}`, obj.GetUID()))
	e.must(want.check(e.Client.Patch(ctx, obj.DeepCopy(), raw)))
	e.must(e.Client.Delete(ctx, obj))
	e.must(refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.Client.Patch(ctx, obj.DeepCopy(), raw)))
}

func patchTest(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "tested")
	version := cm.ResourceVersion
	err := e.patch(ctx, cm, types.JSONPatchType,
		`[{"op":"test","path":"/data/k","value":"other"},{"op":"replace","path":"/data/k","value":"new"}]`)
	e.must(refusal{code: 422, reason: metav1.StatusReasonInvalid}.check(err))
	e.must(e.read(ctx, cm))
	e.must(equal("version", cm.ResourceVersion, version))
	e.must(e.patch(ctx, cm, types.JSONPatchType,
		`[{"op":"test","path":"/metadata/uid","value":%q},{"op":"replace","path":"/data/k","value":"new"}]`, cm.UID))
	e.must(equal("data", cm.Data["k"], "new"))
}

func patchTestNull(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "tested")
	absent := e.patch(ctx, cm, types.JSONPatchType,
		`[{"op":"test","path":"/data/none","value":null},{"op":"add","path":"/data/none","value":"x"}]`)
	present := e.patch(ctx, cm, types.JSONPatchType, `[{"op":"test","path":"/data/k","value":null}]`)
	parent := e.patch(ctx, cm, types.JSONPatchType, `[{"op":"test","path":"/metadata/annotations/none","value":null}]`)
	e.must(absent, refusal{code: 422, reason: metav1.StatusReasonInvalid}.check(present),
		refusal{code: 422, reason: metav1.StatusReasonInvalid}.check(parent))
}

func patchMalformed(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "malformed")
	e.must(refusal{code: 400, reason: metav1.StatusReasonBadRequest}.check(e.patch(ctx, cm, types.JSONPatchType, `{"op":"test"}`)))
}

func patchStrategic(ctx context.Context, e Env) {
	pod := e.pod("two", nil)
	e.must(e.createPod(ctx, pod))
	err := e.patch(ctx, pod, types.StrategicMergePatchType,
		`{"spec":{"containers":[{"name":"c","image":"example.com/image:2"}]},"metadata":{"uid":%q}}`, pod.UID)
	e.must(err)
	e.must(equal("image", pod.Spec.Containers[0].Image, "example.com/image:2"), equal("containers", len(pod.Spec.Containers), 1))
}

func patchStrategicCustom(ctx context.Context, e Env) {
	obj := e.custom(ctx, withStatus, "plain")
	err := e.patch(ctx, obj, types.StrategicMergePatchType, `{"spec":{"size":2}}`)
	e.must(refusal{code: 415, reason: metav1.StatusReasonUnsupportedMediaType}.check(err))
}
