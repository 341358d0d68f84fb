package machineset

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// observeMachines reads the Machines of the set and its ledger, and claims Machines that are the set's to claim. When the caches are
// too old to decide on, the pass waits.
func (p *pass) observeMachines(ctx context.Context) (scale.Ledger, error) {
	var err error
	if p.selector, err = selectorOf(&p.state); err != nil { // an invalid selector: until it is fixed, no Machine is created or released
		p.selector, p.trouble.selector = labels.Nothing(), err
		p.hold(ReasonSelectorUnreadable, err.Error())
	}
	if p.seen, err = p.env.machinesSeen(ctx); err != nil { // before the list, which then holds at least that
		return scale.Ledger{}, err
	}
	if p.candidates, err = p.listCandidates(ctx); err != nil {
		return scale.Ledger{}, err
	}
	ledger, err := p.readLedger(ctx)
	if err != nil || p.waiting {
		return scale.Ledger{}, err
	}
	observed, err := p.claim(ctx)
	if err != nil {
		return scale.Ledger{}, err
	}
	p.observed, p.counted = observed, true
	p.mem().keep(observed)
	return p.beginLedger(ctx, ledger)
}

func (p *pass) mem() *recollection { return p.env.memory.of(p.state.Key, p.state.UID) }

// listCandidates lists the Machines that the set controls, or may come to control.
func (p *pass) listCandidates(ctx context.Context) ([]*member, error) {
	var all []*member
	seen := map[string]bool{}
	for _, key := range []string{ownerKey(p.state.UID), freeKey, setKey(p.state.Key.Name)} {
		list := newList(p.env.kinds.Machine)
		err := p.env.ports.Cache.List(ctx, list, client.InNamespace(p.state.Key.Namespace),
			client.MatchingFields{p.env.indexName(): key}, client.UnsafeDisableDeepCopy)
		if err == nil {
			err = meta.EachListItem(list, func(item runtime.Object) error {
				obj, ok := item.(contract.Object)
				if !ok || seen[obj.GetName()] || (key != ownerKey(p.state.UID) && !p.selector.Matches(labels.Set(obj.GetLabels()))) {
					return nil // what is not the set's own is not read: it may be unreadable
				}
				seen[obj.GetName()] = true
				m, err := p.read(obj)
				if err != nil && !p.state.Deleting.IsZero() { // that it is there is enough to delete it
					m, err = &member{obj: obj, state: &contract.MachineState{}}, nil
					m.state.From(obj)
				}
				all = append(all, m)
				return err
			})
		}
		if err != nil {
			return nil, fmt.Errorf("list %s objects of %s: %w", p.env.kinds.Machine.GVK.Kind, p.state.Key, err)
		}
	}
	return all, nil
}

// read reads a Machine, unless this process has read it as it is now.
func (p *pass) read(obj contract.Object) (*member, error) {
	mem := p.mem()
	if k := mem.members[obj.GetUID()]; k != nil && k.resourceVersion == obj.GetResourceVersion() {
		return &member{obj: obj, state: k.state}, nil
	}
	state := &contract.MachineState{}
	if err := p.env.kinds.Machine.Adapter.Read(obj, state); err != nil {
		return nil, err
	}
	mem.members[obj.GetUID()] = &known{resourceVersion: obj.GetResourceVersion(), state: state}
	return &member{obj: obj, state: state}, nil
}

// machinesSeen is the resource version up to which the cache of Machines has seen everything, empty when it cannot say.
func (r *Reconciler) machinesSeen(ctx context.Context) (string, error) {
	informer, err := r.ports.Cache.GetInformer(ctx, newObject(r.kinds.Machine), cache.BlockUntilSynced(false))
	if err != nil {
		return "", fmt.Errorf("watch %s objects: %w", r.kinds.Machine.GVK.Kind, err)
	}
	if !informer.HasSynced() {
		return "", fmt.Errorf("%w: the first list of %s objects has not come back", errStale, r.kinds.Machine.GVK.Kind)
	}
	if shared, ok := informer.(interface{ GetStore() toolscache.Store }); ok {
		return shared.GetStore().LastStoreSyncResourceVersion(), nil
	}
	return "", nil
}

// liveSet reads the set from the API server itself, and fails with errStale when it is no longer the one of this pass.
func (p *pass) liveSet(ctx context.Context) (contract.Object, error) {
	live := newObject(p.env.kinds.Set)
	if err := p.env.ports.APIReader.Get(ctx, p.state.Key, live); err != nil {
		if external.SaysGone(err) {
			return nil, fmt.Errorf("%w: %s %s is gone", errStale, p.env.kinds.Set.GVK.Kind, p.state.Key)
		}
		return nil, fmt.Errorf("read %s %s: %w", p.env.kinds.Set.GVK.Kind, p.state.Key, err)
	}
	if live.GetUID() != p.state.UID {
		return nil, fmt.Errorf("%w: %s %s is another one now", errStale, p.env.kinds.Set.GVK.Kind, p.state.Key)
	}
	return live, nil
}

// claim adopts and releases, and returns the Machines that the set controls then. One that could not be adopted or released does not
// hold up the others; nothing is created meanwhile, because it may come to count.
func (p *pass) claim(ctx context.Context) ([]*member, error) {
	var own []*member
	mem := p.mem()
	for _, m := range failedLast(p.candidates, func(m *member) bool { return mem.refused[m.state.UID] }) {
		c := decideClaim(claimFacts{Set: &p.state, GVK: p.env.kinds.Set.GVK, Selector: p.selector, Machine: m.state})
		if c == claimOwn {
			own = append(own, m)
		}
		if c == claimNone || c == claimOwn {
			continue
		}
		if p.env.writer.Behind(m.obj) {
			p.requeue(behindRetry)
			return nil, fmt.Errorf("%w: %s %s was changed a moment ago", errStale, p.env.kinds.Machine.GVK.Kind, m.state.Key)
		}
		taken, err := m, error(nil)
		if len(p.trouble.claim) < maxFailed {
			taken, err = p.take(ctx, m, c)
			mem.attempted(m.state.UID, err)
		} else if c != claimRelease {
			taken = nil
		}
		switch {
		case err != nil && onlyStale(err):
			return nil, err
		case err != nil:
			p.trouble.claim = append(p.trouble.claim, err)
			p.hold(ReasonClaimFailed, err.Error())
			if c == claimRelease {
				own = append(own, m)
			}
		case taken != nil:
			own = append(own, taken)
		}
	}
	slices.SortFunc(p.trouble.claim, byText)
	return own, nil
}
