package machineset

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// observeMachines reads the Machines of the set and its ledger, and claims Machines that are the set's to claim. When the caches are
// too old to decide on, the pass waits.
func (p *pass) observeMachines(ctx context.Context) (scale.Ledger, error) {
	var err error
	if p.selector, err = selectorOf(&p.state); err != nil {
		return scale.Ledger{}, fmt.Errorf("%s %s: %w", p.env.kinds.Set.GVK.Kind, p.state.Key, err)
	}
	seen, err := p.env.machinesSeen(ctx) // before the list, which then holds at least that
	if err != nil {
		return scale.Ledger{}, err
	}
	candidates, err := p.candidates(ctx)
	if err != nil {
		return scale.Ledger{}, err
	}
	ledger, err := p.readLedger(ctx, candidates)
	if err != nil || p.waiting {
		return scale.Ledger{}, err
	}
	if covers, err := p.covers(ctx, ledger, seen, candidates); err != nil || !covers {
		p.wait()
		return scale.Ledger{}, err
	}
	observed, err := p.claim(ctx, candidates)
	if err != nil {
		return scale.Ledger{}, err
	}
	p.observed, p.counted = observed, true
	p.mem().keep(observed)
	return ledger, nil
}

func (p *pass) mem() *recollection { return p.env.memory.of(p.state.Key, p.state.UID) }

// candidates are the Machines that the set controls, or may come to control.
func (p *pass) candidates(ctx context.Context) ([]*member, error) {
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

// covers reports whether the cache has seen every Machine that was created. Where that does not follow from resource versions, one
// list of the API server itself tells.
func (p *pass) covers(ctx context.Context, ledger scale.Ledger, seen string, candidates []*member) (bool, error) {
	if seen != "" {
		p.seen = seen
		if covers, err := ledger.Covers(seen); err == nil {
			return covers, nil
		}
	}
	live, version, err := p.liveMachines(ctx)
	if err != nil {
		return false, err
	}
	p.seen = version
	own := 0
	for _, m := range candidates {
		if owner := controllerOf(m.state.OwnerReferences); owner != nil && owner.UID == p.state.UID {
			own++
			if _, found := live[m.state.Key.Name]; !found {
				return false, nil
			}
		}
	}
	return own == len(live), nil
}

// liveMachines are the Machines that the set controls as the API server itself knows them, by name, and the version of that list.
func (p *pass) liveMachines(ctx context.Context) (map[string]metav1.PartialObjectMetadata, string, error) {
	list := &metav1.PartialObjectMetadataList{}
	gvk := p.env.kinds.Machine.GVK
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := p.env.ports.APIReader.List(ctx, list, client.InNamespace(p.state.Key.Namespace)); err != nil {
		return nil, "", fmt.Errorf("list %s objects: %w", gvk.Kind, err)
	}
	own := map[string]metav1.PartialObjectMetadata{}
	for _, m := range list.Items {
		if owner := metav1.GetControllerOfNoCopy(&m); owner != nil && owner.UID == p.state.UID {
			own[m.Name] = m
		}
	}
	return own, list.ResourceVersion, nil
}

// liveSet reads the set from the API server itself, and fails with errStale when it is no longer the one of this pass.
func (p *pass) liveSet(ctx context.Context) (contract.Object, error) {
	live := newObject(p.env.kinds.Set)
	if err := p.env.ports.APIReader.Get(ctx, p.state.Key, live); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, fmt.Errorf("%w: %s %s is gone", errStale, p.env.kinds.Set.GVK.Kind, p.state.Key)
		}
		return nil, fmt.Errorf("read %s %s: %w", p.env.kinds.Set.GVK.Kind, p.state.Key, err)
	}
	if live.GetUID() != p.state.UID {
		return nil, fmt.Errorf("%w: %s %s is another one now", errStale, p.env.kinds.Set.GVK.Kind, p.state.Key)
	}
	return live, nil
}

// rebuiltGap is how many slots are left out where a ledger was lost: more than could have been taken and not be seen.
const rebuiltGap = 1 << 20

// readLedger reads the ledger. A set that never created anything has none, and one that came from elsewhere with the ledger of the
// set that it was there counts as such a set.
func (p *pass) readLedger(ctx context.Context, candidates []*member) (scale.Ledger, error) {
	highest := int64(0)
	machines := make([]scale.Machine, 0, len(candidates))
	for _, m := range candidates {
		machines = append(machines, scale.Of(m.state, p.state.UID))
		highest = max(highest, machines[len(machines)-1].Slot)
	}
	text, found := p.state.Annotations[scale.LedgerAnnotation]
	if !found {
		return p.newLedger(ctx, highest)
	}
	ledger, err := scale.ParseLedger(text)
	switch {
	case err != nil:
		p.hold(ReasonLedgerUnreadable, fmt.Sprintf("annotation %s: %v: correct it, or remove it", scale.LedgerAnnotation, err))
		return scale.Ledger{Next: highest + rebuiltGap}, nil
	case !ledger.IsOf(p.state.UID):
		return p.newLedger(ctx, highest)
	case ledger.Behind(machines):
		return p.rebuiltLedger(ctx, highest)
	}
	return ledger, nil
}

// newLedger is the ledger of a set without one of its own.
func (p *pass) newLedger(ctx context.Context, highest int64) (scale.Ledger, error) {
	if highest == 0 {
		return scale.NewLedger(), nil
	}
	return p.rebuiltLedger(ctx, highest)
}

// rebuiltLedger is the ledger of a set that has Machines of slots which its ledger does not know. That the read of the set is old is
// waited for; but somebody may have taken the annotation away, or put an earlier one back, say with a manifest: then it starts
// behind every slot that can have been taken.
func (p *pass) rebuiltLedger(ctx context.Context, highest int64) (scale.Ledger, error) {
	live, err := p.liveSet(ctx)
	if err != nil {
		return scale.Ledger{}, err
	}
	text, found := p.state.Annotations[scale.LedgerAnnotation]
	if now, there := live.GetAnnotations()[scale.LedgerAnnotation]; there != found || now != text {
		p.wait()
		return scale.Ledger{}, nil
	}
	return scale.Ledger{Next: highest + rebuiltGap}, nil
}

// ReasonLedgerUnreadable is the reason of the hold on a set whose ledger cannot be read.
const ReasonLedgerUnreadable = "LedgerUnreadable"

// claim adopts and releases, and returns the Machines that the set controls then. A Machine that could not be claimed ends the pass:
// how many there are would not be known.
func (p *pass) claim(ctx context.Context, candidates []*member) ([]*member, error) {
	var own []*member
	var errs []error
	for _, m := range candidates {
		c := decideClaim(claimFacts{Set: &p.state, GVK: p.env.kinds.Set.GVK, Selector: p.selector, Machine: m.state})
		switch c {
		case claimNone:
		case claimOwn:
			own = append(own, m)
		case claimAdopt, claimRestore, claimRelease:
			if p.env.writer.Behind(m.obj) {
				p.requeue(behindRetry)
				return nil, fmt.Errorf("%w: %s %s was changed a moment ago", errStale, p.env.kinds.Machine.GVK.Kind, m.state.Key)
			}
			taken, err := p.take(ctx, m, c)
			if err != nil {
				errs = append(errs, err)
			} else if taken != nil {
				own = append(own, taken)
			}
		}
	}
	return own, errors.Join(errs...)
}
