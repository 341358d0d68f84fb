package guard

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
)

// Source returns all objects of a kind that may own an instance, from the API server itself, of all namespaces and whoever reconciles them.
// An error means that the list is incomplete.
type Source = func(context.Context) ([]Owner, error)

// MachinesOf returns the Source of Machines of a kind, whose instances have the UID of the Machine as their token, as machine.WithDriver
// makes them. The reader must not be a cache.
func MachinesOf(reader client.Reader, kind contract.Kind) Source {
	return sourceOf(reader, kind, func(m *contract.MachineState) string { return m.ProviderID })
}

// InfraMachinesOf returns the Source of InfraMachines of a kind, whose instances have the UID of the InfraMachine as their token, as
// package inframachine makes them. The Machines above them are another Source. The reader must not be a cache.
func InfraMachinesOf(reader client.Reader, kind contract.InfraMachineKind) Source {
	return sourceOf(reader, kind, func(m *contract.ProvidedMachineState) string { return m.ProviderID })
}

// sourceOf returns the Source of all objects of a kind. If one cannot be read, it fails, because the instance of that object is unknown.
func sourceOf[S, U any](reader client.Reader, kind contract.KindOf[S, U], id func(*S) string) Source {
	return func(ctx context.Context) ([]Owner, error) {
		if err := engine.CheckKind("the kind of a Source", kind); err != nil {
			return nil, err
		}
		var all []Owner
		var errs []error
		list := engine.NewList(kind)
		err := reader.List(ctx, list)
		if list.GetContinue() != "" {
			err = errors.New("the answer is only a part of them: give a reader that sets no limit")
		}
		unread := engine.EachObject(list, func(obj client.Object) {
			var s S
			if err := kind.Adapter.Read(obj, &s); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", client.ObjectKeyFromObject(obj), err))
			}
			m := contract.CommonOf(&s) // across namespaces, its cluster is named as in Instance.Cluster
			all = append(all, Owner{
				UID: m.UID, Cluster: m.Key.Namespace + "/" + m.ClusterName, Name: m.Key.Name, ProviderID: id(&s), Created: m.Created,
			})
		})
		if err := errors.Join(append(errs, err, unread)...); err != nil {
			return nil, fmt.Errorf("read all %s objects: %w", kind.GVK.Kind, err)
		}
		return all, nil
	}
}

// read joins the objects of all Sources.
func read(ctx context.Context, sources []Source) ([]Owner, error) {
	var all []Owner
	for _, source := range sources {
		some, err := source(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}
