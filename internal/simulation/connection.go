package simulation

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// connection is the client of one process: each request goes through World.request, which decides what becomes of it.
type connection struct {
	client.WithWatch

	process *process
}

func (c *connection) do(verb string, obj runtime.Object, name string, call func() error) error {
	return c.write(verb, obj, name, call, Request{})
}

// write sends a request that may arrive late or be changed by a webhook.
func (c *connection) write(verb string, obj runtime.Object, name string, call func() error, r Request) error {
	gvk, err := gvkOf(obj)
	if err != nil {
		return err
	}
	if o, is := obj.(client.Object); is {
		r.Namespace = o.GetNamespace()
	}
	r.Verb, r.Kind, r.Name, r.Write = verb, gvk.Kind, name, verb != "get" && verb != "list"
	return c.process.world.request(c.process, r, call)
}

// copied returns a copy of an object.
func copied(obj client.Object) client.Object {
	return obj.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is of the same type
}

// fixed returns a patch as it is now, so that it can be sent later.
func fixed(obj client.Object, p client.Patch) (client.Patch, error) {
	data, err := p.Data(obj)
	return client.RawPatch(p.Type(), data), err
}

// Get implements client.Reader.
func (c *connection) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	return c.do("get", obj, key.Name, func() error { return c.WithWatch.Get(ctx, key, obj, o...) })
}

// List implements client.Reader.
func (c *connection) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	return c.do("list", list, "", func() error { return c.WithWatch.List(ctx, list, o...) })
}

// Create implements client.Writer.
func (c *connection) Create(ctx context.Context, obj client.Object, o ...client.CreateOption) error {
	later := copied(obj)
	return c.write("create", obj, obj.GetName(), func() error { return c.WithWatch.Create(ctx, obj, o...) }, Request{
		later: func() error { return c.WithWatch.Create(ctx, later, o...) },
		rewritten: func(change webhookChange) error {
			return rewritten(obj, change, nil, func(u *unstructured.Unstructured) error { return c.WithWatch.Create(ctx, u, o...) })
		},
	})
}

// Delete implements client.Writer.
func (c *connection) Delete(ctx context.Context, obj client.Object, o ...client.DeleteOption) error {
	later := copied(obj)
	return c.write("delete", obj, obj.GetName(), func() error {
		c.process.world.deletesBuilt(c.process, obj)
		return c.WithWatch.Delete(ctx, obj, o...)
	}, Request{
		later: func() error { return c.WithWatch.Delete(ctx, later, o...) },
	})
}

// Update implements client.Writer.
func (c *connection) Update(ctx context.Context, obj client.Object, o ...client.UpdateOption) error {
	return c.write("update", obj, obj.GetName(), func() error { return c.WithWatch.Update(ctx, obj, o...) }, Request{
		rewritten: func(change webhookChange) error {
			return rewritten(obj, change, nil, func(u *unstructured.Unstructured) error { return c.WithWatch.Update(ctx, u, o...) })
		},
	})
}

// Patch implements client.Writer.
func (c *connection) Patch(ctx context.Context, obj client.Object, p client.Patch, o ...client.PatchOption) error {
	later := copied(obj)
	raw, err := fixed(obj, p)
	if err != nil {
		return err
	}
	return c.write("patch", obj, obj.GetName(), func() error { return c.WithWatch.Patch(ctx, obj, raw, o...) }, Request{
		later: func() error { return c.WithWatch.Patch(ctx, later, raw, o...) },
		rewritten: func(change webhookChange) error {
			return rewritten(obj, change,
				func(u *unstructured.Unstructured) error {
					return c.WithWatch.Patch(ctx, u, raw, append(o, client.DryRunAll)...)
				},
				func(u *unstructured.Unstructured) error { return c.WithWatch.Update(ctx, u) })
		},
	})
}

// Status implements client.StatusClient.
func (c *connection) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c *connection) SubResource(name string) client.SubResourceClient {
	return &subresource{SubResourceClient: c.WithWatch.SubResource(name), connection: c, name: name}
}

type subresource struct {
	client.SubResourceClient

	connection *connection
	name       string
}

// Patch implements client.SubResourceWriter.
func (s *subresource) Patch(ctx context.Context, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
	later := copied(obj)
	raw, err := fixed(obj, p)
	if err != nil {
		return err
	}
	patch := func(obj client.Object) func() error {
		return func() error { return s.SubResourceClient.Patch(ctx, obj, raw, o...) }
	}
	return s.connection.write("patch "+s.name, obj, obj.GetName(), patch(obj), Request{later: patch(later),
		rewritten: func(change webhookChange) error {
			return rewritten(obj, change,
				func(u *unstructured.Unstructured) error {
					return s.SubResourceClient.Patch(ctx, u, raw, append(o, client.DryRunAll)...)
				},
				func(u *unstructured.Unstructured) error { return s.SubResourceClient.Update(ctx, u) })
		}})
}

// Update implements client.SubResourceWriter.
func (s *subresource) Update(ctx context.Context, obj client.Object, o ...client.SubResourceUpdateOption) error {
	return s.connection.do("update "+s.name, obj, obj.GetName(), func() error { return s.SubResourceClient.Update(ctx, obj, o...) })
}

// calls sends the calls of the process to the cloud through World.request too.
func (p *process) calls() cloud.Decorator {
	return cloud.Around(func(ctx context.Context, op cloud.Operation, r *cloud.Request, call func(context.Context) error) error {
		return p.world.request(p, Request{
			Verb: string(op), Kind: "instance", Name: r.Name, Write: op == cloud.OpCreate || op == cloud.OpDelete, Cloud: true,
		}, func() error {
			switch op { //nolint:exhaustive // the others change nothing
			case cloud.OpDelete:
				p.world.fail(DrainsFirst, p.world.drainsFirst(p, r))
			case cloud.OpCreate:
				p.world.fail(madeForKept, p.makesForKept(r))
			}
			return call(ctx)
		})
	})
}
