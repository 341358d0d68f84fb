package simulation

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/machinist-dev/machinist/fake"
	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// connection sends what one process sends to an API server: each request goes through World.request, which decides what becomes of it.
type connection struct {
	process *process
	session *session // with a workload cluster; nil without
}

// client returns that of a process for the API server of a store.
func (c connection) client(of *fake.Store) client.WithWatch {
	return interceptor.NewClient(of.Client(), interceptor.Funcs{
		Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			return c.send(obj, Request{Verb: "get", Name: key.Name}, func() error { return to.Get(ctx, key, obj, o...) })
		},
		List: func(ctx context.Context, to client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			return c.send(list, Request{Verb: "list"}, func() error { return to.List(ctx, list, o...) })
		},
		Create: func(ctx context.Context, to client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			return c.write("create", obj, func(obj client.Object) error { return to.Create(ctx, obj, o...) })
		},
		Delete: func(ctx context.Context, to client.WithWatch, obj client.Object, o ...client.DeleteOption) error {
			c.process.world.fail(DeletesByUID, deletesByUID(obj, o))
			return c.write("delete", obj, func(obj client.Object) error {
				c.process.world.deletesBuilt(c.process, obj)
				return to.Delete(ctx, obj, o...)
			})
		},
		Update: func(ctx context.Context, to client.WithWatch, obj client.Object, o ...client.UpdateOption) error {
			return c.write("update", obj, func(obj client.Object) error { return to.Update(ctx, obj, o...) })
		},
		Patch: func(ctx context.Context, to client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			if slices.Contains(o, client.PatchOption(client.DryRunAll)) { // it reads the field managers
				return c.send(obj, Request{Verb: "get", Name: obj.GetName()}, func() error { return to.Patch(ctx, obj, p, o...) })
			}
			return c.patch("patch", obj, p, func(obj client.Object, p client.Patch) error { return to.Patch(ctx, obj, p, o...) })
		},
		SubResourceUpdate: func(ctx context.Context, to client.Client, of string, obj client.Object, o ...client.SubResourceUpdateOption) error {
			return c.write("update "+of, obj, func(obj client.Object) error { return to.SubResource(of).Update(ctx, obj, o...) })
		},
		SubResourcePatch: func(
			ctx context.Context, to client.Client, of string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption,
		) error {
			return c.patch("patch "+of, obj, p, func(obj client.Object, p client.Patch) error {
				return to.SubResource(of).Patch(ctx, obj, p, o...)
			})
		},
	})
}

// write sends an object. The request may arrive late.
func (c connection) write(verb string, obj client.Object, send func(client.Object) error) error {
	later := copied(obj)
	return c.send(obj, Request{
		Verb: verb, Namespace: obj.GetNamespace(), Name: obj.GetName(), Write: true, stores: verb != "delete",
		later: func() error { return send(later) },
	}, func() error { return send(obj) })
}

// patch sends a patch as it is now, also later.
func (c connection) patch(verb string, obj client.Object, p client.Patch, send func(client.Object, client.Patch) error) error {
	data, err := p.Data(obj)
	if err != nil {
		return err
	}
	return c.write(verb, obj, func(obj client.Object) error { return send(obj, client.RawPatch(p.Type(), data)) })
}

// send completes a request about objects of the kind of one.
func (c connection) send(of runtime.Object, r Request, call func() error) error {
	gvk, err := gvkOf(of)
	if err != nil {
		return err
	}
	r.Kind, r.session = gvk.Kind, c.session
	return c.process.world.request(c.process, r, call)
}

// copied returns a copy of an object.
func copied(obj client.Object) client.Object {
	return obj.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is of the same type
}

// calls sends the calls of the process to the cloud through World.request too.
func (p *process) calls() cloud.Decorator {
	return cloud.Around(func(ctx context.Context, op cloud.Operation, r *cloud.Request, call func(context.Context) error) error {
		request := Request{Verb: string(op), Kind: "instance", Name: r.Name, Write: op == cloud.OpCreate || op == cloud.OpDelete, Cloud: true}
		if request.Write && p.world.habits != nil {
			request.later = func() error { return call(ctx) }
		}
		return p.world.request(p, request, func() error {
			p.world.habits.of(r.Token).looked = p.world.Now()
			switch op { //nolint:exhaustive // the others change nothing
			case cloud.OpDelete:
				if p.world.provided == nil { // otherwise, it is about the deletion of the infrastructure object
					p.world.fail(DrainsFirst, p.world.drainsFirst(p, r))
				}
				p.world.fail("an instance is not deleted that a Machine names which stays", p.staysForOthers(r))
			case cloud.OpCreate:
				p.world.fail("no instance is made for a Machine that was gone or being deleted before the pass", p.makesForKept(r))
			}
			return call(ctx)
		})
	})
}

// DeletesByUID is the invariant that is checked before each deletion of a process. Another object may have the name by now.
const DeletesByUID = "an object is deleted by the UID that was read, and not by its name alone"

func deletesByUID(obj client.Object, options []client.DeleteOption) error {
	only := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
	if only == nil || only.UID == nil {
		return fmt.Errorf("%s %s is deleted by its name", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName())
	}
	return nil
}
