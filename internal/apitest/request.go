package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// send sends an object as it was last seen, with the fields of a create or an update on top, and keeps the answer.
func (r *run) send(ctx context.Context, s step) error {
	if s.verb == "create" { // not what an object of this name was before
		delete(r.now, r.ref)
		delete(r.first, r.ref)
	}
	obj, err := r.object(ctx, map[string]string{"create": s.body, "update": s.body}[s.verb])
	if err == nil {
		err = r.call(ctx, s, obj)
	}
	if err != nil {
		return err
	}
	return r.keep(r.ref, obj)
}

func (r *run) call(ctx context.Context, s step, obj client.Object) error {
	switch s.verb {
	case "create":
		return r.Client.Create(ctx, obj, &client.CreateOptions{DryRun: s.DryRun})
	case "get":
		return r.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	case "update":
		if r.part != "" {
			return r.Client.SubResource(r.part).Update(ctx, obj)
		}
		return r.Client.Update(ctx, obj, &client.UpdateOptions{FieldManager: s.manager})
	case "delete":
		o := &client.DeleteOptions{}
		if err := r.decode(s.body, o); err != nil {
			return err
		}
		return r.Client.Delete(ctx, obj, o)
	case "evict":
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: obj.GetName()}, DeleteOptions: &metav1.DeleteOptions{}}
		if err := r.decode(s.body, eviction.DeleteOptions); err != nil {
			return err
		}
		return r.Client.SubResource("eviction").Create(ctx, obj, eviction)
	case "bind":
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: obj.GetName()}}
		if err := r.decode(s.body, &binding.Target); err != nil {
			return err
		}
		return r.Client.SubResource("binding").Create(ctx, obj, binding)
	}
	return r.patch(ctx, s, obj)
}

// patch sends a document: with the identity of the object if it is applied, and as it is if it is a text.
func (r *run) patch(ctx context.Context, s step, obj client.Object) (err error) {
	kind, known := map[string]types.PatchType{"apply": types.ApplyPatchType, "merge-patch": types.MergePatchType,
		"json-patch": types.JSONPatchType, "strategic-patch": types.StrategicMergePatchType}[s.verb]
	if !known {
		return fmt.Errorf("the verb %q is unknown", s.verb)
	}
	document, text := []byte(r.expand(s.body)), ""
	if json.Unmarshal(document, &text) == nil {
		document = []byte(text)
	} else if s.verb == "apply" {
		if document, err = r.merged(r.identity(), s.body); err != nil {
			return err
		}
	}
	patch := client.RawPatch(kind, document)
	o := client.PatchOptions{FieldManager: s.manager, Force: s.Force, DryRun: s.DryRun}
	if r.part != "" {
		return r.Client.SubResource(r.part).Patch(ctx, obj, patch, &client.SubResourcePatchOptions{PatchOptions: o})
	}
	return r.Client.Patch(ctx, obj, patch, &o)
}

// collection lists, watches or deletes objects of a kind. Those that are listed become objects whose names are indexes.
func (r *run) collection(ctx context.Context, s step) error {
	answer, o, err := r.listing(s.body)
	if err != nil {
		return err
	}
	switch s.verb {
	case "watch":
		return r.watch(ctx, answer, o)
	case "delete-all":
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(r.kind())
		return r.Client.DeleteAllOf(ctx, obj,
			&client.DeleteAllOfOptions{ListOptions: *o, DeleteOptions: client.DeleteOptions{DryRun: s.DryRun}})
	}
	if err := r.Client.List(ctx, answer, o); err != nil {
		return err
	}
	if o.Continue == "" {
		delete(r.first, r.ref)
	}
	items, err := meta.ExtractList(answer)
	for i, item := range items {
		err = errors.Join(err, r.keep(fmt.Sprintf("%s/%d", r.ref, i), item))
	}
	return errors.Join(err, r.keep(r.ref, answer))
}

// listing returns what receives the objects of a kind, and decodes metav1.ListOptions.
func (r *run) listing(options string) (client.ObjectList, *client.ListOptions, error) {
	o := &client.ListOptions{Raw: &metav1.ListOptions{}}
	if err := r.decode(options, o.Raw); err != nil {
		return nil, nil, err
	}
	o.Limit, o.Continue = o.Raw.Limit, o.Raw.Continue
	if r.view != "all" {
		o.Namespace = r.Namespace
	}
	gvk := r.kind().GroupVersion().WithKind(r.ref + "List")
	if r.view == "metadata" {
		answer := &metav1.PartialObjectMetadataList{}
		answer.SetGroupVersionKind(gvk)
		return answer, o, nil
	}
	made, err := r.Client.Scheme().New(gvk)
	answer, _ := made.(client.ObjectList)
	return answer, o, err
}
