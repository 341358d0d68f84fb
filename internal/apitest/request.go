package apitest

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type call func(ctx context.Context, r *run, obj client.Object) error

// send is a step that sends an object as it was last seen, with fields on top, and keeps the answer.
func send(verb, ref, fields string, c call) step {
	return func(ctx context.Context, r *run) error {
		r.begin(verb, ref)
		if verb == "create" { // not what an object of this name was before
			delete(r.now, r.ref)
			delete(r.first, r.ref)
		}
		obj, err := r.object(ctx, fields)
		if err != nil {
			return err
		}
		if err := c(ctx, r, obj); err != nil {
			return err
		}
		return r.keep(r.ref, obj)
	}
}

func create(ref, fields string, o ...client.CreateOption) step {
	return send("create", ref, fields, func(ctx context.Context, r *run, obj client.Object) error { return r.Client.Create(ctx, obj, o...) })
}

func update(ref, fields string, o ...client.UpdateOption) step {
	return send("update", ref, fields, func(ctx context.Context, r *run, obj client.Object) error { return r.Client.Update(ctx, obj, o...) })
}

func updateStatus(ref, fields string) step {
	return send("update status of", ref, fields, func(ctx context.Context, r *run, obj client.Object) error {
		return r.Client.Status().Update(ctx, obj)
	})
}

func read(ref string) step {
	return send("read", ref, "", func(ctx context.Context, r *run, obj client.Object) error {
		return r.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	})
}

// await reads an object until it shows what is wanted.
func await(ref string, wants ...string) step { return eventually(read(ref).shows(wants...)) }

// gone waits until an object no longer exists.
func gone(ref string) step { return eventually(read(ref).fails("404 NotFound", "")) }

func patch(ref string, t types.PatchType, document string, o ...client.PatchOption) step {
	return send("patch", ref, "", func(ctx context.Context, r *run, obj client.Object) error {
		return r.Client.Patch(ctx, obj, client.RawPatch(t, []byte(r.expand(document))), o...)
	})
}

func merge(ref, document string) step { return patch(ref, types.MergePatchType, document) }

func patchStatus(ref string, t types.PatchType, document string, o ...client.SubResourcePatchOption) step {
	return send("patch status of", ref, "", func(ctx context.Context, r *run, obj client.Object) error {
		return r.Client.Status().Patch(ctx, obj, client.RawPatch(t, []byte(r.expand(document))), o...)
	})
}

// apply applies fields and the identity of an object.
func apply(ref, manager, fields string, o ...client.PatchOption) step {
	return send("apply", ref, "", func(ctx context.Context, r *run, obj client.Object) error {
		document, err := r.merged(r.identity(), fields)
		if err != nil {
			return err
		}
		return r.Client.Patch(ctx, obj, client.RawPatch(types.ApplyPatchType, document), append(o, client.FieldOwner(manager))...)
	})
}

// remove deletes an object, with fields of metav1.DeleteOptions.
func remove(ref, options string) step {
	return send("delete", ref, "", func(ctx context.Context, r *run, obj client.Object) error {
		o := &client.DeleteOptions{}
		if err := r.decode(options, o); err != nil {
			return err
		}
		return r.Client.Delete(ctx, obj, o)
	})
}

func removeAll(kind string, o client.DeleteAllOfOption) step {
	return send("delete all of", kind+"/", "", func(ctx context.Context, r *run, obj client.Object) error {
		return r.Client.DeleteAllOf(ctx, obj, client.InNamespace(r.Namespace), o)
	})
}

// evict evicts a pod, with fields of metav1.DeleteOptions.
func evict(ref, options string) step {
	return send("evict", ref, "", func(ctx context.Context, r *run, obj client.Object) error {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: obj.GetName()}, DeleteOptions: &metav1.DeleteOptions{}}
		if err := r.decode(options, eviction.DeleteOptions); err != nil {
			return err
		}
		return r.Client.SubResource("eviction").Create(ctx, obj, eviction)
	})
}

// bind puts a pod on a Node.
func bind(ref, node string) step {
	return send("bind", ref, "", func(ctx context.Context, r *run, obj client.Object) error {
		return r.Client.SubResource("binding").Create(ctx, obj, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: obj.GetName()}, Target: corev1.ObjectReference{Kind: "Node", Name: r.expand(node)},
		})
	})
}

// list lists objects of a kind in the namespace of the case, "Kind:all" in all of them, with fields of metav1.ListOptions. The items
// become objects whose names are indexes.
func list(ref, options string) step {
	return func(ctx context.Context, r *run) error {
		answer, o, err := r.listing("list", ref, options)
		if err != nil {
			return err
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
}
