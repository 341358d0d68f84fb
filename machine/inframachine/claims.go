package inframachine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/instance"
)

// ownerOf reads the Machine in an owner reference of an InfraMachine. missing describes why there is none; it is empty when one was read.
func (r *Reconciler) ownerOf(ctx context.Context, infra metav1.Object) (m contract.MachineState, missing string, err error) {
	kind, owners := r.kinds.Machine, infra.GetOwnerReferences()
	at := slices.IndexFunc(owners, func(ref metav1.OwnerReference) bool {
		return ref.Kind == kind.GVK.Kind && engine.Group(ref.APIVersion) == kind.GVK.Group
	})
	if at < 0 {
		return m, "Waiting for the " + kind.GVK.Kind + " controller to set the owner reference", nil
	}
	owner := owners[at]
	key, obj := types.NamespacedName{Namespace: infra.GetNamespace(), Name: owner.Name}, engine.NewObject(kind)
	missing = fmt.Sprintf("Waiting for %s %s, which has not been seen", kind.GVK.Kind, key)
	err = r.ports.Cache.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && obj.GetUID() != owner.UID: // another object of the same name: the owner is gone
		return m, missing, nil
	case err != nil:
		return m, "", fmt.Errorf("read %s %s: %w", kind.GVK.Kind, key, err)
	}
	err = kind.Adapter.Read(obj, &m)
	return m, "", err
}

// names reports whether a Machine references an InfraMachine.
func (r *Reconciler) names(m *contract.MachineState, infra types.NamespacedName) bool {
	return m.Infrastructure.GroupKind() == r.kinds.InfraMachine.GVK.GroupKind() && m.Infrastructure.Name == infra.Name
}

// isNamed reports whether a Machine of the namespace references an InfraMachine. Its owner references do not show this: the controller of a
// paused Machine has not set one, and a restored InfraMachine has the UID of an earlier Machine.
func (r *Reconciler) isNamed(ctx context.Context, infra metav1.Object) (bool, error) {
	key := types.NamespacedName{Namespace: infra.GetNamespace(), Name: infra.GetName()}
	machines := engine.NewList(r.kinds.Machine)
	if err := r.ports.Cache.List(ctx, machines, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list %s objects: %w", r.kinds.Machine.GVK.Kind, err)
	}
	named, unread := false, error(nil)
	err := engine.EachObject(machines, func(obj client.Object) {
		var m contract.MachineState
		err := r.kinds.Machine.Adapter.Read(obj, &m)
		unread = cmp.Or(unread, err)
		named = named || err == nil && r.names(&m, key)
	})
	if named {
		return true, nil
	}
	return false, cmp.Or(err, unread) // a Machine that cannot be read may reference it
}

// claim is another InfraMachine with the same provider ID or resume data.
type claim struct {
	Name string
	// Named: a Machine references it. Elsewhere: it is in another namespace.
	Named, Deleting, Elsewhere bool
}

// claims are the inputs of decideHolders.
type claims struct {
	// Named: a Machine references this InfraMachine. Made: the Driver reports that the instance was made for it, or is gone.
	Named, Made bool
	Others      []claim
}

// decideHolders returns the names of the other InfraMachines for which an instance is retained while this one is being deleted, sorted. An
// instance is deleted when all are being deleted. An InfraMachine that no Machine references does not block one that a Machine references:
// it is a copy. An InfraMachine in another namespace does not block the one for which the instance was made: it is a copy, or another cloud
// uses the same provider ID.
func decideHolders(f claims) []string {
	var holders []string
	for _, other := range f.Others {
		if !other.Deleting && (other.Named || !f.Named) && !(other.Elsewhere && f.Made) {
			holders = append(holders, other.Name)
		}
	}
	slices.Sort(holders)
	return holders
}

// remove deletes the instance, unless it is retained for other InfraMachines. Without a provider ID the instance is looked up first,
// because a person may have removed the ID. The Machine is needed only if other InfraMachines have the same provider ID.
func (s *Scope) remove(ctx context.Context) (instance.Removal, error) {
	if s.env.indexed && s.State.ProviderID == "" {
		if found, err := s.look(ctx); err != nil || found.Unread != "" {
			return instance.Removal{Message: found.Unread, RequeueAfter: found.RequeueAfter}, err
		}
	}
	holders, err := s.holders(ctx)
	if err != nil {
		return instance.Removal{}, err
	}
	if len(holders) > 0 {
		value := fmt.Sprintf("spec.providerID %q", s.State.ProviderID)
		if s.State.ProviderID == "" {
			value = "the annotation " + contract.InstanceResumeAnnotation + " of this one"
		}
		return s.env.keeper.Held(s.env.kinds.InfraMachine.GVK.Kind, value, s.env.frame.Finalizer, holders), nil
	}
	removal := s.env.keeper.Remove(ctx, s.input(ctx))
	if !removal.Gone {
		s.notReady(contract.ReasonDeleting, removal.Message)
	}
	return removal, nil
}

// holders returns the other InfraMachines for which the instance is retained. Without the index, InfraMachines do not detect each other. If
// one of them is in another namespace, the instance is read from the Driver.
func (s *Scope) holders(ctx context.Context) ([]string, error) {
	others, err := s.sharing(ctx)
	if err != nil || len(others) == 0 {
		return nil, err
	}
	var facts claims
	if facts.Named, err = s.env.isNamed(ctx, s.Object); err != nil {
		return nil, err
	}
	elsewhere := false
	for _, other := range others {
		c := claim{Name: other.GetName(), Deleting: other.GetDeletionTimestamp() != nil}
		if c.Elsewhere = other.GetNamespace() != s.State.Key.Namespace; c.Elsewhere {
			c.Name, elsewhere = client.ObjectKeyFromObject(other).String(), true
		}
		if c.Named, err = s.env.isNamed(ctx, other); err != nil {
			return nil, err
		}
		facts.Others = append(facts.Others, c)
	}
	if elsewhere {
		in := s.input(ctx)
		found, err := s.env.keeper.Ensure(ctx, in)
		if err != nil {
			return nil, err
		}
		facts.Made = found.Gone || found.Instance.Token == in.Request.Token
	}
	return decideHolders(facts), nil
}

// sharing returns the other InfraMachines, in all namespaces, with the same provider ID or resume data.
func (s *Scope) sharing(ctx context.Context) (others []client.Object, err error) {
	if !s.env.indexed {
		return nil, nil
	}
	seen := map[types.NamespacedName]bool{s.State.Key: true}
	for _, key := range instanceKeys(&s.State) {
		err = errors.Join(err, s.env.frame.Each(ctx, "", key, func(obj client.Object) {
			if at := client.ObjectKeyFromObject(obj); !seen[at] {
				seen[at], others = true, append(others, obj)
			}
		}))
	}
	return others, err
}

// keysOf returns the keys under which an object is found. For an object that cannot be read completely, it uses the values that were read.
func (r *Reconciler) keysOf(obj client.Object) []string {
	var infra contract.ProvidedMachineState
	if r.frame.Read(obj, &infra) != nil {
		return instanceKeys(&infra)
	}
	return append(engine.ReferenceKeys(contract.CommonOf(&infra)), instanceKeys(&infra)...)
}

// instanceKeys returns the keys of the provider ID and the resume data of an InfraMachine.
func instanceKeys(infra *contract.ProvidedMachineState) (keys []string) {
	if infra.ProviderID != "" {
		keys = append(keys, "id:"+infra.ProviderID)
	}
	if len(infra.Resume) > 0 {
		keys = append(keys, "resume:"+string(infra.Resume))
	}
	return keys
}
