package children

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// Scope is one pass over the children of one owner. Fill it with Frame.Begin, and call its methods in the order of the package's
// documentation. Only the worker that runs the pass uses it. The slices must not be changed.
type Scope[S, U, CS, CU any] struct {
	// Own are the children that the owner controls, those in deletion included, and Known says that Observe has read them.
	Own   []Child[CS]
	Known bool
	// Selector is which children are the owner's, since Observe.
	Selector labels.Selector
	// Ledger is the creation ledger as it is stored, or as it begins where none is.
	Ledger scale.Ledger
	// Waiting: what was read is too old to say anything. The pass ends, and changes no condition; another one is requested.
	Waiting bool
	// Unclaimed are the errors of adoptions and releases, and Undeleted why the API server has refused deletions, both sorted.
	Unclaimed []error
	Undeleted []string
	// Released are the children that the owner has made, nobody controls and it does not select.
	Released []metav1.Time
	// Holds keep the owner from creating children in this pass.
	Holds []scale.Hold

	frame  *Frame[S, U, CS, CU]
	owner  *engine.Scope[S, U]
	memory *Memory
	// candidates are the children that the owner controls or may come to control, as the cache shows them, and names those of all objects
	// of their kind that the API server has, since ShowsAll, which returns shows. highest is the highest slot among them.
	candidates []Child[CS]
	names      map[string]bool
	shows      bool
	highest    int64
	// restored: the stored ledger is that of another owner. current: this pass has written the ledger, or confirmed that it is stored.
	restored, current bool
	unkept            map[string]bool // those that were not stored as they were created, by name
	told              []engine.Event  // events that are recorded when the metadata of the owner is written
}

// Begin fills an empty Scope for an owner. memory is what is remembered of this owner, by its UID. Begin keeps both.
func (f *Frame[S, U, CS, CU]) Begin(s *Scope[S, U, CS, CU], owner *engine.Scope[S, U], memory *Memory) {
	s.frame, s.owner, s.memory = f, owner, memory
}

// Observe reads the children of the owner and its ledger, and claims the children that are the owner's to claim. After an error, or when
// Waiting is set, nothing can be decided in this pass. Children that could not be adopted or released are no error: they are in Unclaimed,
// and hold creations. Neither is a selector that cannot be read: until it is corrected, no child is created, adopted or released.
func (s *Scope[S, U, CS, CU]) Observe(ctx context.Context) error {
	var err error
	if s.Selector, err = s.frame.selector(&s.owner.State); err != nil {
		s.Selector = labels.Nothing()
		s.Hold(ReasonSelectorUnreadable, err.Error())
	}
	if err := s.frame.Synced(ctx); err != nil {
		return err
	}
	if s.candidates, err = s.list(ctx); err != nil {
		return err
	}
	if s.readLedger() {
		if err := s.rebuildLedger(ctx); err != nil || s.Waiting {
			return err
		}
	}
	own, err := s.claim(ctx)
	if err != nil {
		return err
	}
	s.Own, s.Known = own, true
	return nil
}

// list lists the children that the owner controls, or may come to control. What is not the owner's own is read only when it matches: it
// may be unreadable.
func (s *Scope[S, U, CS, CU]) list(ctx context.Context) ([]Child[CS], error) {
	var all []Child[CS]
	owner := s.owner.Common()
	named, seen := nameKey(owner.Key.Name), map[string]bool{}
	for _, key := range []string{named, freeKey, named} { // one whose owner changes between two lists is in one of them
		more, err := s.frame.List(ctx, owner.Key.Namespace, key, !owner.Deleting.IsZero(), func(obj client.Object) bool {
			if seen[obj.GetName()] {
				return false
			}
			wanted := s.Selector.Matches(labels.Set(obj.GetLabels())) || key != freeKey && metav1.IsControlledBy(obj, s.owner.Object)
			seen[obj.GetName()] = wanted
			if !wanted && key == freeKey && isStamped(obj, owner.UID) && obj.GetDeletionTimestamp() == nil {
				s.Released = append(s.Released, obj.GetCreationTimestamp())
			}
			return wanted
		})
		if err != nil {
			return nil, fmt.Errorf("children of %s: %w", owner.Key, err)
		}
		all = append(all, more...)
	}
	return all, nil
}

// List returns the objects of the children's kind under a key of the index that are wanted; nil wants all. goes says
// that they are to be deleted: then one that cannot be read is there nevertheless.
func (f *Frame[S, U, CS, CU]) List(
	ctx context.Context, namespace, key string, goes bool, wanted func(client.Object) bool,
) ([]Child[CS], error) {
	list := engine.NewList(f.kind)
	err := f.owner.Ports.Cache.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{f.owner.IndexName(): key},
		client.UnsafeDisableDeepCopy)
	var all []Child[CS]
	var unread error
	if err == nil {
		err = engine.EachObject(list, func(obj client.Object) {
			if wanted != nil && !wanted(obj) {
				return
			}
			m, err := f.child(obj)
			if err != nil && goes { // that it exists is enough to delete it; nothing else of it counts
				m.State, err = new(CS), nil
				m.Metadata = contract.CommonOf(m.State).Metadata
				m.From(obj)
			}
			all, unread = append(all, m), cmp.Or(unread, err)
		})
	}
	if err = cmp.Or(err, unread); err != nil {
		return nil, fmt.Errorf("list %s objects: %w", f.kind.GVK.Kind, err)
	}
	return all, nil
}

// Synced returns an error that matches engine.ErrStale before the first list of children has come back.
func (f *Frame[S, U, CS, CU]) Synced(ctx context.Context) error {
	informer, err := f.owner.Ports.Cache.GetInformer(ctx, engine.NewObject(f.kind), cache.BlockUntilSynced(false))
	switch {
	case err != nil:
		return fmt.Errorf("watch %s objects: %w", f.kind.GVK.Kind, err)
	case !informer.HasSynced():
		return fmt.Errorf("%w: the first list of %s objects has not come back", engine.ErrStale, f.kind.GVK.Kind)
	}
	return nil
}

// CheckSelector holds an owner whose selector does not select the labels that its children get.
func (s *Scope[S, U, CS, CU]) CheckSelector(gives map[string]string) {
	if !s.IsHeld(ReasonSelectorUnreadable) && !s.Selector.Matches(labels.Set(gives)) {
		s.Hold(ReasonSelectorMismatch, fmt.Sprintf(
			"the selector %s does not match the labels of the template: a new %s would not be the %s's own",
			s.Selector, s.frame.kind.GVK.Kind, s.frame.owner.Kind.GVK.Kind))
	}
}

// Hold keeps the owner from creating children in this pass, for a reason and with a message for a person.
func (s *Scope[S, U, CS, CU]) Hold(reason, message string) {
	if hold := (scale.Hold{Reason: reason, Message: message}); !slices.Contains(s.Holds, hold) {
		s.Holds = append(s.Holds, hold)
	}
}

// IsHeld reports whether there is a hold with a reason.
func (s *Scope[S, U, CS, CU]) IsHeld(reason string) bool {
	return slices.ContainsFunc(s.Holds, func(h scale.Hold) bool { return h.Reason == reason })
}

// inCluster reports whether a child has the Cluster of its owner.
func (s *Scope[S, U, CS, CU]) inCluster(m Child[CS]) bool {
	return contract.CommonOf(m.State).ClusterName == s.owner.Common().ClusterName
}

// Sync calls a function for each child that is not in step with its owner, and has its Cluster, and remembers those for which it succeeds
// until they change. with is all that the fields of children which change in place depend on in their owner. A child that has changed a
// moment ago is left for a later pass, and one that is gone is no error.
func (s *Scope[S, U, CS, CU]) Sync(with string, do func(Child[CS]) error) error {
	var errs []error
	synced := map[types.UID]inStep{}
	for _, m := range s.Own {
		now := inStep{m.ResourceVersion, with}
		if s.memory.synced[m.UID] == now {
			synced[m.UID] = now
			continue
		}
		if s.frame.owner.Writer.Behind(m.Object) || !s.inCluster(m) {
			continue
		}
		err := do(m)
		if err == nil {
			synced[m.UID] = now
		}
		if !external.SaysGone(err) {
			errs = append(errs, err)
		}
	}
	s.memory.synced = synced
	return errors.Join(errs...)
}

// Memory is what a process remembers of the children of one owner between passes: keep it by the UID of the owner, for example in a
// engine.Memory. Losing it costs time and reads, never correctness. Only the worker that reconciles the owner uses it.
type Memory struct {
	// Mark is scale.FreezeVerdict.Mark of the last evaluation.
	Mark contract.Opt[int]

	// lag is for how long the cache has not shown all children.
	lag Lag
	// failed are the names of the children whose creation failed the last time, each with the UID of the child that was not stored as it was
	// created, if there is one: the others come first.
	failed map[string]types.UID
	// synced is what the children are in step with.
	synced map[types.UID]inStep
	// failure is why the last attempt to create has failed, empty when it has not.
	failure string
}

// inStep is a version of a child, and what of its owner it is in step with.
type inStep struct{ resourceVersion, with string }

// NewMemory returns what is remembered of an owner at first.
func NewMemory() *Memory {
	return &Memory{failed: map[string]types.UID{}, synced: map[types.UID]inStep{}}
}

// hasFailed reports whether the creation of a child failed the last time.
func (m *Memory) hasFailed(name string) bool {
	_, failed := m.failed[name]
	return failed
}
