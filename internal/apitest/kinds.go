package apitest

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func kindCases() []Case {
	return []Case{
		{"a custom kind is unknown until it is defined, and after", "references to missing kinds", kindDefined},
		{"fields that a custom kind's schema does not know are dropped at every write", "a status can be lost", kindPruned},
		{"what a schema preserves is kept, and known fields below it are still pruned", "templates and provider data", kindPreserved},
	}
}

func kindDefined(ctx context.Context, e Env) {
	gvk := schema.GroupVersionKind{Group: e.Namespace + ".machinist.dev", Version: "v1", Kind: "Thing"}
	thing := &unstructured.Unstructured{}
	thing.SetGroupVersionKind(gvk)
	thing.SetName("one")
	thing.SetNamespace(e.Namespace)
	before := e.Client.Create(ctx, thing.DeepCopy())
	read := e.Client.Get(ctx, client.ObjectKeyFromObject(thing), thing.DeepCopy())
	e.must(holds(meta.IsNoMatchError(before) && meta.IsNoMatchError(read),
		"create and get of an unknown kind failed with %v and %v, want no-match errors", before, read))
	e.must(e.serve(ctx, gvk, "things", false))
	e.must(e.Client.Create(ctx, thing))
	e.must(e.Client.Delete(ctx, definition(gvk, "things", false)))
	e.must(eventually(ctx, "the kind to be gone with its objects", func(ctx context.Context) (bool, error) {
		return e.Client.Get(ctx, client.ObjectKeyFromObject(thing), thing.DeepCopy()) != nil, nil
	}))
}

func kindPruned(ctx context.Context, e Env) {
	obj := e.custom(ctx, withSchema, "pruned", func(u *unstructured.Unstructured) {
		setField(u, "x", "top")
		setField(u, "x", "spec", "unknown")
		setField(u, []any{map[string]any{"name": "a", "unknown": "x"}}, "spec", "parts")
		setField(u, map[string]any{"one": map[string]any{"name": "a", "unknown": "x"}}, "spec", "names")
	})
	want := func(what, spec, status string) error {
		_, top := obj.Object["top"]
		return errors.Join(equal("spec after "+what, specOf(obj), spec), holds(!top, "the unknown field top is there after %s", what),
			equal("status after "+what, fmt.Sprint(obj.Object["status"]), status))
	}
	const made = "map[names:map[one:map[name:a]] parts:[map[name:a]] size:1]"
	e.must(want("create", made, "<nil>"))
	setField(obj, "x", "spec", "unknown")
	version := obj.GetResourceVersion()
	e.must(e.Client.Update(ctx, obj), want("update", made, "<nil>"), equal("version", obj.GetResourceVersion(), version))
	e.must(e.patch(ctx, obj, types.MergePatchType, `{"top":"x","spec":{"unknown":"x","unit":"m"}}`),
		want("merge patch", "map[names:map[one:map[name:a]] parts:[map[name:a]] size:1 unit:m]", "<nil>"))
	const patch = `[{"op":"add","path":"/spec/unknown","value":1},{"op":"remove","path":"/spec/unit"}]`
	e.must(e.patch(ctx, obj, types.JSONPatchType, patch), want("JSON patch", made, "<nil>"))
	setField(obj, "Running", "status", "phase")
	setField(obj, "x", "status", "unknown")
	e.must(e.Client.Status().Update(ctx, obj), want("status update", made, "map[phase:Running]"))
}

func kindPreserved(ctx context.Context, e Env) {
	obj := e.custom(ctx, withSchema, "preserved", func(u *unstructured.Unstructured) {
		setField(u, map[string]any{"any": map[string]any{"thing": "x"}, "known": map[string]any{"a": "x", "b": "x"}}, "spec", "free")
		setField(u, "50%", "spec", "either")
		u.SetLabels(map[string]string{"a": "b"})
		u.SetAnnotations(map[string]string{"c": "d"})
	})
	e.must(
		equal("spec", fmt.Sprint(obj.Object["spec"]), "map[either:50% free:map[any:map[thing:x] known:map[a:x]] size:1]"),
		equal("labels", fmt.Sprint(obj.GetLabels()), "map[a:b]"), equal("annotations", fmt.Sprint(obj.GetAnnotations()), "map[c:d]"),
	)
}
