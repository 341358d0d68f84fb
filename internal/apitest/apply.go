package apitest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func applyCases() []Case {
	return []Case{
		{"an apply creates a missing object, and its manager owns its fields", "declarative clients have no create", applyCreates},
		{"a field that another manager applied is a conflict, which force takes", "two controllers, one field", applyConflict},
		{"a field that its last owner leaves out is removed", "the point of applying", applyRemoves},
		{"an apply that changes nothing keeps the version", "no write, no event", applyNoop},
		{"a field that an update wrote is a conflict, unless the value is the same", "beside clients that do not apply", applyOverUpdate},
		{"an update takes over the fields that it changes", "its next apply must notice", applyThenUpdate},
		{"lists merge by key, as sets or not at all, as their schema says", "two managers, one list", applyLists},
		{"metadata of a kind without a schema merges like any", "finalizers of two controllers", applyMetadata},
		{"containers merge by name", "built-in kinds have a schema", applyContainers},
		{"an apply of the status leaves the rest alone, and the other way round", "two writers, two endpoints", applyStatus},
		{"an apply guards with UID and version", "it must not revive what is gone", applyGuards},
		{"an apply needs a manager, and only an apply can be forced", "ownership without an owner", applyOptions},
		{"an apply of a field that the schema does not know is refused", "an applier would own nothing", applyUnknown},
		{"a dry run of an apply stores nothing", "previews", applyDry},
	}
}

// gauge names an object of withSchema, or of another custom kind.
func (e Env) gauge(ctx context.Context, name string) *unstructured.Unstructured {
	e.must(e.served(ctx, withSchema))
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(withSchema)
	u.SetName(name)
	u.SetNamespace(e.Namespace)
	return u
}

// applied is the body of an apply of obj: its identity and the fields of a JSON object without braces.
func applied(obj client.Object, fields string) client.Patch {
	gvk := obj.GetObjectKind().GroupVersionKind()
	return client.RawPatch(types.ApplyPatchType, fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":%q},%s}`,
		gvk.GroupVersion(), gvk.Kind, obj.GetName(), obj.GetNamespace(), fields))
}

func (e Env) apply(ctx context.Context, obj client.Object, manager, fields string, o ...client.PatchOption) error {
	gvk := obj.GetObjectKind().GroupVersionKind()
	err := e.Client.Patch(ctx, obj, applied(obj, fields), append(o, client.FieldOwner(manager))...)
	obj.GetObjectKind().SetGroupVersionKind(gvk) // typed objects lose it when they are decoded
	return err
}

// conflicts is the refusal of an apply because of a conflict in one field.
func conflicts(field, manager string) refusal {
	return refusal{code: 409, reason: metav1.StatusReasonConflict, cause: metav1.CauseTypeFieldManagerConflict,
		text: "Apply failed with 1 conflict: conflict with " + manager, field: field}
}

// owners returns the fields of each manager, as "manager/operation/subresource: fields".
func owners(obj client.Object) string {
	var out []string
	for _, entry := range obj.GetManagedFields() {
		name := entry.Manager + "/" + string(entry.Operation)
		if entry.Subresource != "" {
			name += "/" + entry.Subresource
		}
		out = append(out, name+": "+entry.FieldsV1.GetRawString())
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func specOf(u *unstructured.Unstructured) string { return fmt.Sprint(u.Object["spec"]) }

func applyCreates(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "made")
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":1,"parts":[{"name":"a"}]}`))
	e.must(holds(obj.GetUID() != "", "there is no UID"), equal("generation", obj.GetGeneration(), 1),
		equal("spec", specOf(obj), "map[parts:[map[name:a]] size:1]"),
		equal("owners", owners(obj), `first/Apply: {"f:spec":{"f:parts":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}},"f:size":{}}}`),
		equal("version of the fields", obj.GetManagedFields()[0].APIVersion, withSchema.GroupVersion().String()),
		holds(obj.GetManagedFields()[0].Time != nil, "the fields have no time"))
}

func applyConflict(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "shared")
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":1,"unit":"m"}`))
	e.must(conflicts(".spec.size", `"first": .spec.size`).check(e.apply(ctx, obj.DeepCopy(), "second", `"spec":{"size":2}`)))
	e.must(e.apply(ctx, obj, "second", `"spec":{"size":1}`)) // with the same value
	e.must(conflicts(".spec.size", `"second": .spec.size`).check(e.apply(ctx, obj.DeepCopy(), "first", `"spec":{"size":3,"unit":"m"}`)))
	e.must(e.apply(ctx, obj, "second", `"spec":{"size":2}`, client.ForceOwnership))
	e.must(equal("spec", specOf(obj), "map[size:2 unit:m]"),
		equal("owners", owners(obj), `first/Apply: {"f:spec":{"f:unit":{}}}; second/Apply: {"f:spec":{"f:size":{}}}`))
}

func applyRemoves(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "fewer")
	e.must(e.apply(ctx, obj, "first",
		`"spec":{"size":1,"unit":"m","names":{"a":{"name":"x"},"b":{"name":"y"}},"parts":[{"name":"a"},{"name":"b"}]}`))
	e.must(e.apply(ctx, obj, "second", `"spec":{"unit":"m","parts":[{"name":"b"}]}`))
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":1,"names":{"b":{"name":"y"}}}`))
	e.must(equal("spec", specOf(obj), "map[names:map[b:map[name:y]] parts:[map[name:b]] size:1 unit:m]"))
	e.must(e.apply(ctx, obj, "second", `"spec":{"parts":[]}`))
	e.must(equal("spec", specOf(obj), "map[names:map[b:map[name:y]] size:1]"))
}

func applyNoop(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "same")
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":1}`))
	version := obj.GetResourceVersion()
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":1}`))
	e.must(equal("version", obj.GetResourceVersion(), version))
}

func applyOverUpdate(ctx context.Context, e Env) {
	cm := e.madeConfigMap(ctx, "written")
	cm.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	e.must(conflicts(".data.k", "").check(e.apply(ctx, cm.DeepCopy(), "first", `"data":{"k":"new"}`)))
	e.must(e.apply(ctx, cm, "first", `"data":{"k":"v","more":"w"}`))
	e.must(equal("data", fmt.Sprint(cm.Data), "map[k:v more:w]"))
	e.must(e.apply(ctx, cm, "first", `"data":{"more":"w"}`))
	e.must(equal("data that two own", fmt.Sprint(cm.Data), "map[k:v more:w]"))
	e.must(e.apply(ctx, cm, "first", `"data":{"k":"new"}`, client.ForceOwnership))
	e.must(equal("data", fmt.Sprint(cm.Data), "map[k:new]"))
}

func applyThenUpdate(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "changed")
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":1,"unit":"m"}`))
	setField(obj, int64(2), "spec", "size")
	e.must(e.Client.Update(ctx, obj, client.FieldOwner("other")))
	e.must(equal("owners", owners(obj), `first/Apply: {"f:spec":{"f:unit":{}}}; other/Update: {"f:spec":{"f:size":{}}}`))
	e.must(conflicts(".spec.size", `"other" using conformance.machinist.dev/v1: .spec.size`).
		check(e.apply(ctx, obj.DeepCopy(), "first", `"spec":{"size":1,"unit":"m"}`)))
	obj.SetManagedFields(nil) // a client without managed fields does not remove them
	setField(obj, "cm", "spec", "unit")
	e.must(e.Client.Update(ctx, obj, client.FieldOwner("other")))
	e.must(equal("owners", owners(obj), `other/Update: {"f:spec":{"f:size":{},"f:unit":{}}}`))
}

func applyLists(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "lists")
	e.must(e.apply(ctx, obj, "first", `"spec":{"parts":[{"name":"a","unit":"m"}],"tags":["x"],"words":["one"]}`))
	e.must(e.apply(ctx, obj, "second", `"spec":{"parts":[{"name":"b"}],"tags":["y","x"]}`))
	e.must(equal("spec", specOf(obj), "map[parts:[map[name:a unit:m] map[name:b]] tags:[y x] words:[one]]"))
	e.must(conflicts(".spec.words", `"first": .spec.words`).check(e.apply(ctx, obj.DeepCopy(), "third", `"spec":{"words":["two"]}`)))
	e.must(e.apply(ctx, obj, "first", `"spec":{"words":["one"]}`))
	e.must(equal("spec", specOf(obj), "map[parts:[map[name:b]] tags:[y x] words:[one]]"))
}

func applyMetadata(ctx context.Context, e Env) {
	obj := e.custom(ctx, withStatus, "held")
	held := func(manager, finalizer string) error {
		patch := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{%q:"x"},"finalizers":[%q]}}`,
			withStatus.GroupVersion(), withStatus.Kind, obj.GetName(), manager, finalizer)
		return e.Client.Patch(ctx, obj, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner(manager))
	}
	e.must(held("first", "example.com/a"))
	e.must(held("second", "example.com/b"))
	e.must(equal("finalizers", fmt.Sprint(obj.GetFinalizers()), "[example.com/a example.com/b]"),
		equal("labels", fmt.Sprint(obj.GetLabels()), "map[first:x second:x]"))
	e.must(held("first", "example.com/c"))
	have := obj.GetFinalizers()
	slices.Sort(have)
	e.must(equal("finalizers", fmt.Sprint(have), "[example.com/b example.com/c]"))
	e.must(e.patch(ctx, obj, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
}

func applyContainers(ctx context.Context, e Env) {
	d := e.deployment("merged", 0)
	d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	e.must(e.Client.Create(ctx, d))
	d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	e.must(e.apply(ctx, d, "second", `"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"1"}]}]}}}`))
	c := d.Spec.Template.Spec.Containers
	e.must(equal("containers", len(c), 1), equal("image", c[0].Image, "example.com/image:1"),
		equal("variables", len(c[0].Env), 1))
}

func applyStatus(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "status")
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":1},"status":{"phase":"x"}`))
	e.must(equal("phase", phaseOf(obj), ""))
	e.must(e.Client.Status().Patch(ctx, obj, applied(obj, `"spec":{"size":2},"status":{"phase":"Running"}`), client.FieldOwner("first")))
	e.must(equal("phase", phaseOf(obj), "Running"), equal("spec", specOf(obj), "map[size:1]"), equal("owners", owners(obj),
		`first/Apply/status: {"f:status":{"f:phase":{}}}; first/Apply: {"f:spec":{"f:size":{}}}`))
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":3}`))
	e.must(equal("phase", phaseOf(obj), "Running"), equal("spec", specOf(obj), "map[size:3]"))
}

func applyGuards(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "guarded")
	guarded := func(guard string) error {
		patch := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"guarded",%s},"spec":{"size":7}}`,
			withSchema.GroupVersion(), withSchema.Kind, guard)
		return e.Client.Patch(ctx, obj.DeepCopy(), client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner("first"))
	}
	const foreign = `"uid":"22222222-2222-4222-8222-222222222222"`
	e.must(refusal{code: 409, reason: metav1.StatusReasonConflict, text: "uid mismatch"}.check(guarded(foreign)))
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":1}`))
	version := obj.GetResourceVersion()
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":2}`))
	e.must(refusal{code: 409, reason: metav1.StatusReasonConflict, text: "the object has been modified"}.
		check(guarded(fmt.Sprintf(`"resourceVersion":%q`, version))))
	e.must(refusal{code: 422, reason: metav1.StatusReasonInvalid, text: "metadata.uid"}.check(guarded(foreign)))
	e.must(guarded(fmt.Sprintf(`"uid":%q`, obj.GetUID())))
	e.must(refusal{code: 400, reason: metav1.StatusReasonBadRequest, text: "does not match the name on the URL"}.
		check(guarded(`"name":"other"`)))
}

func applyOptions(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "options")
	invalid := refusal{code: 422, reason: metav1.StatusReasonInvalid}
	nameless := e.Client.Patch(ctx, obj.DeepCopy(), applied(obj, `"spec":{"size":1}`))
	forced := e.Client.Patch(ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{}`)), client.ForceOwnership)
	invalid.text, invalid.cause = "fieldManager: Required value: is required for apply patch", metav1.CauseTypeFieldValueRequired
	problems := invalid.check(nameless)
	invalid.text, invalid.cause = "force: Forbidden: may not be specified for non-apply patch", metav1.CauseTypeForbidden
	malformed := e.Client.Patch(ctx, obj.DeepCopy(), client.RawPatch(types.ApplyPatchType, []byte(`{"spec":`)), client.FieldOwner("first"))
	e.must(problems, invalid.check(forced), refusal{code: 400, reason: metav1.StatusReasonBadRequest}.check(malformed))
}

func applyUnknown(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "unknown")
	e.must(refusal{code: 500, text: ".spec.unknown: field not declared in schema"}.check(e.apply(ctx, obj, "first", `"spec":{"unknown":1}`)))
}

func applyDry(ctx context.Context, e Env) {
	obj := e.gauge(ctx, "dry")
	e.must(e.apply(ctx, obj, "first", `"spec":{"size":1}`, client.DryRunAll))
	e.must(refusal{code: 404, reason: metav1.StatusReasonNotFound}.check(e.read(ctx, obj)))
}
