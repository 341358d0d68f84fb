package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/safety"
)

// Source returns all objects of a kind that an instance may belong to, as the API server itself has them, of all namespaces and whoever
// reconciles them. An error says that they are not all known.
type Source = func(context.Context) ([]safety.Owner, error)

// MachinesOf returns the Source of Machines of a kind, whose instances have the UID of the Machine as their token, as machine.WithDriver
// makes them. The reader must not be a cache.
func MachinesOf(reader client.Reader, kind contract.Kind) Source {
	return func(ctx context.Context) ([]safety.Owner, error) {
		return live(ctx, reader, kind, func(m *contract.MachineState) safety.Owner {
			o := ownerOf(&m.Metadata, m.ClusterName, m.ProviderID)
			o.Node = m.Node
			return o
		})
	}
}

// InfraMachinesOf returns the Source of InfraMachines of a kind, whose instances have the UID of the InfraMachine as their token, as
// package inframachine makes them. The Machines above them are another Source. The reader must not be a cache.
func InfraMachinesOf(reader client.Reader, kind contract.InfraMachineKind) Source {
	return func(ctx context.Context) ([]safety.Owner, error) {
		return live(ctx, reader, kind, func(m *contract.ProvidedMachineState) safety.Owner {
			return ownerOf(&m.Metadata, m.ClusterName, m.ProviderID)
		})
	}
}

// PoolsOf returns the Source of MachinePools of a kind. Each of their Nodes and instances is an Owner, with the UID of the pool.
// Without it the Nodes of pools without Machines are marked as Nodes of no Machine. The reader must not be a cache.
func PoolsOf(reader client.Reader, kind contract.MachinePoolKind) Source {
	return func(ctx context.Context) ([]safety.Owner, error) {
		pools, err := live(ctx, reader, kind, func(p *contract.MachinePoolState) []safety.Owner {
			whole := ownerOf(&p.Metadata, p.ClusterName, "")
			all := []safety.Owner{whole}
			for _, id := range p.ProviderIDs {
				all = append(all, whole)
				all[len(all)-1].ProviderID = id
			}
			for _, ref := range p.Nodes {
				all = append(all, whole)
				all[len(all)-1].Node = ref
			}
			return all
		})
		return slices.Concat(pools...), err
	}
}

// ownerOf is the Owner of an object, whose cluster is named across namespaces, as in safety.Instance.Cluster.
func ownerOf(m *contract.Metadata, cluster, id string) safety.Owner {
	return safety.Owner{UID: m.UID, Cluster: m.Key.Namespace + "/" + cluster, Name: m.Key.Name, ProviderID: id, Created: m.Created}
}

// live reads all objects of a kind. One that cannot be read fails all: what it owns is not known.
func live[S, U, O any](ctx context.Context, reader client.Reader, kind contract.KindOf[S, U], of func(*S) O) ([]O, error) {
	var all []O
	err := eachLive(ctx, reader, func() client.ObjectList { return engine.NewList(kind) }, func(obj client.Object) error {
		var s S
		err := kind.Adapter.Read(obj, &s)
		all = append(all, of(&s))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read all %s objects: %w", kind.GVK.Kind, err)
	}
	return all, nil
}

// listLimit is the number of objects in one answer of the API server.
const listLimit = 500

// eachLive passes all objects of a list to a function, and joins its errors.
func eachLive(ctx context.Context, reader client.Reader, newList func() client.ObjectList, do func(client.Object) error) error {
	for next := ""; ; {
		list := newList()
		if err := reader.List(ctx, list, client.Limit(listLimit), client.Continue(next)); err != nil {
			return err
		}
		var errs []error
		err := engine.EachObject(list, func(obj client.Object) {
			if err := do(obj); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", client.ObjectKeyFromObject(obj), err))
			}
		})
		if err := errors.Join(append(errs, err)...); err != nil {
			return err
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// read joins the objects of all Sources.
func read(ctx context.Context, sources []Source) ([]safety.Owner, error) {
	var all []safety.Owner
	for _, source := range sources {
		some, err := source(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}
