package machineset

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
)

// observeMachines reads the Machines of the set and its ledger, and claims Machines that are the set's to claim. When the caches are
// too old to decide on, the pass waits.
func (s *Scope) observeMachines(ctx context.Context) error {
	var err error
	if s.selector, err = selectorOf(&s.State); err != nil { // an invalid selector: until it is fixed, no Machine is created or released
		s.selector, s.trouble.selector = labels.Nothing(), err
		s.Hold(ReasonSelectorUnreadable, err.Error())
	}
	if s.seen, err = s.env.machinesSeen(ctx); err != nil { // before the list, which then holds at least that
		return err
	}
	if s.candidates, err = s.listCandidates(ctx); err != nil {
		return err
	}
	if s.ledger, err = s.readLedger(ctx); err != nil || s.waiting {
		return err
	}
	observed, err := s.claim(ctx)
	if err != nil {
		return err
	}
	s.observed, s.counted = observed, true
	s.mem.keep(observed)
	s.ledger, err = s.beginLedger(ctx, s.ledger)
	return err
}

// listCandidates lists the Machines that the set controls, or may come to control.
func (s *Scope) listCandidates(ctx context.Context) ([]*member, error) {
	var all []*member
	seen := map[string]bool{}
	for _, key := range []string{ownerKey(s.State.UID), freeKey, setKey(s.State.Key.Name)} {
		list := pass.NewList(s.env.kinds.Machine)
		err := s.env.frame.Ports.Cache.List(ctx, list, client.InNamespace(s.State.Key.Namespace),
			client.MatchingFields{s.env.frame.IndexName(): key}, client.UnsafeDisableDeepCopy)
		if err == nil {
			err = meta.EachListItem(list, func(item runtime.Object) error {
				obj, ok := item.(contract.Object)
				if !ok || seen[obj.GetName()] || (key != ownerKey(s.State.UID) && !s.selector.Matches(labels.Set(obj.GetLabels()))) {
					return nil // what is not the set's own is not read: it may be unreadable
				}
				seen[obj.GetName()] = true
				m, err := s.read(obj)
				if err != nil && !s.State.Deleting.IsZero() { // that it is there is enough to delete it
					m, err = &member{obj: obj, state: &contract.MachineState{}}, nil
					m.state.From(obj)
				}
				all = append(all, m)
				return err
			})
		}
		if err != nil {
			return nil, fmt.Errorf("list %s objects of %s: %w", s.env.kinds.Machine.GVK.Kind, s.State.Key, err)
		}
	}
	return all, nil
}

// read reads a Machine, unless this process has read it as it is now.
func (s *Scope) read(obj contract.Object) (*member, error) {
	mem := s.mem
	if k := mem.members[obj.GetUID()]; k != nil && k.resourceVersion == obj.GetResourceVersion() {
		return &member{obj: obj, state: k.state}, nil
	}
	state := &contract.MachineState{}
	if err := s.env.kinds.Machine.Adapter.Read(obj, state); err != nil {
		return nil, err
	}
	mem.members[obj.GetUID()] = &known{resourceVersion: obj.GetResourceVersion(), state: state}
	return &member{obj: obj, state: state}, nil
}

// machinesSeen is the resource version up to which the cache of Machines has seen everything, empty when it cannot say.
func (r *Reconciler) machinesSeen(ctx context.Context) (string, error) {
	informer, err := r.frame.Ports.Cache.GetInformer(ctx, pass.NewObject(r.kinds.Machine), cache.BlockUntilSynced(false))
	if err != nil {
		return "", fmt.Errorf("watch %s objects: %w", r.kinds.Machine.GVK.Kind, err)
	}
	if !informer.HasSynced() {
		return "", fmt.Errorf("%w: the first list of %s objects has not come back", pass.ErrStale, r.kinds.Machine.GVK.Kind)
	}
	if shared, ok := informer.(interface{ GetStore() toolscache.Store }); ok {
		return shared.GetStore().LastStoreSyncResourceVersion(), nil
	}
	return "", nil
}

// liveSet reads the set from the API server itself, and fails with pass.ErrStale when it is no longer the one of this pass.
func (s *Scope) liveSet(ctx context.Context) (contract.Object, error) {
	live := pass.NewObject(s.env.kinds.Set)
	if err := s.env.frame.Ports.APIReader.Get(ctx, s.State.Key, live); err != nil {
		if external.SaysGone(err) {
			return nil, fmt.Errorf("%w: %s %s is gone", pass.ErrStale, s.env.kinds.Set.GVK.Kind, s.State.Key)
		}
		return nil, fmt.Errorf("read %s %s: %w", s.env.kinds.Set.GVK.Kind, s.State.Key, err)
	}
	if live.GetUID() != s.State.UID {
		return nil, fmt.Errorf("%w: %s %s is another one now", pass.ErrStale, s.env.kinds.Set.GVK.Kind, s.State.Key)
	}
	return live, nil
}
