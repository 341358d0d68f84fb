package simulation

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloud "github.com/machinist-dev/machinist/machine/provider"
)

// connection is the client of one process: each request goes through World.request, which decides what becomes of it.
type connection struct {
	client.WithWatch

	process *process
	session *session // with a workload cluster; nil without
}

// read sends a request that changes nothing.
func (c *connection) read(verb string, obj runtime.Object, name string, call func() error) error {
	gvk, err := gvkOf(obj)
	if err != nil {
		return err
	}
	return c.process.world.request(c.process, Request{Verb: verb, Kind: gvk.Kind, Name: name, session: c.session}, call)
}

// write sends an object. The request may arrive late. A webhook may change it, if store does the same with the object that try makes of it.
func (c *connection) write(verb string, obj client.Object, send, try, store sending) error {
	gvk, err := gvkOf(obj)
	if err != nil {
		return err
	}
	later := copied(obj)
	r := Request{
		Verb: verb, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), Write: true, session: c.session,
		later: func() error { return send(later) },
	}
	if store != nil {
		r.rewritten = func(change webhookChange) error { return rewritten(obj, change, try, store) }
	}
	return c.process.world.request(c.process, r, func() error { return send(obj) })
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
	return c.read("get", obj, key.Name, func() error { return c.WithWatch.Get(ctx, key, obj, o...) })
}

// List implements client.Reader.
func (c *connection) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	return c.read("list", list, "", func() error { return c.WithWatch.List(ctx, list, o...) })
}

// Create implements client.Writer.
func (c *connection) Create(ctx context.Context, obj client.Object, o ...client.CreateOption) error {
	create := func(obj client.Object) error { return c.WithWatch.Create(ctx, obj, o...) }
	return c.write("create", obj, create, nil, create)
}

// Delete implements client.Writer.
func (c *connection) Delete(ctx context.Context, obj client.Object, o ...client.DeleteOption) error {
	c.process.world.fail(DeletesByUID, deletesByUID(obj, o))
	return c.write("delete", obj, func(obj client.Object) error {
		c.process.world.deletesBuilt(c.process, obj)
		return c.WithWatch.Delete(ctx, obj, o...)
	}, nil, nil)
}

// Update implements client.Writer.
func (c *connection) Update(ctx context.Context, obj client.Object, o ...client.UpdateOption) error {
	update := func(obj client.Object) error { return c.WithWatch.Update(ctx, obj, o...) }
	return c.write("update", obj, update, nil, update)
}

// Patch implements client.Writer.
func (c *connection) Patch(ctx context.Context, obj client.Object, p client.Patch, o ...client.PatchOption) error {
	raw, err := fixed(obj, p)
	if err != nil {
		return err
	}
	return c.write("patch", obj, func(obj client.Object) error { return c.WithWatch.Patch(ctx, obj, raw, o...) },
		func(obj client.Object) error { return c.WithWatch.Patch(ctx, obj, raw, append(o, client.DryRunAll)...) },
		func(obj client.Object) error { return c.WithWatch.Update(ctx, obj) })
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
	raw, err := fixed(obj, p)
	if err != nil {
		return err
	}
	to := s.SubResourceClient
	return s.connection.write("patch "+s.name, obj, func(obj client.Object) error { return to.Patch(ctx, obj, raw, o...) },
		func(obj client.Object) error { return to.Patch(ctx, obj, raw, append(o, client.DryRunAll)...) },
		func(obj client.Object) error { return to.Update(ctx, obj) })
}

// Update implements client.SubResourceWriter.
func (s *subresource) Update(ctx context.Context, obj client.Object, o ...client.SubResourceUpdateOption) error {
	update := func(obj client.Object) error { return s.SubResourceClient.Update(ctx, obj, o...) }
	return s.connection.write("update "+s.name, obj, update, nil, update)
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
				p.world.fail(DrainsFirst, p.world.drainsFirst(p, r))
				p.world.fail("an instance is not deleted that a Machine names which stays", p.staysForOthers(r))
			case cloud.OpCreate:
				p.world.fail("no instance is made for a Machine that was gone or being deleted before the pass", p.makesForKept(r))
			}
			return call(ctx)
		})
	})
}
