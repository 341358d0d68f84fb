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
	// Own are the children that the owner controls, including those that are being deleted. Known: Observe has read them.
	Own   []Child[CS]
	Known bool
	// Selector selects the owner's children, since Observe.
	Selector labels.Selector
	// Ledger is the stored creation ledger, or the initial one.
	Ledger scale.Ledger
	// Waiting: the facts that were read are too old to decide. The pass ends without changing a condition, and another one is requested.
	Waiting bool
	// Unclaimed are the errors of adoptions and releases, and Undeleted the reasons for rejected deletions, both sorted.
	Unclaimed []error
	Undeleted []string
	// Released are the children that the owner has created, that have no controller, and that it does not select.
	Released []metav1.Time
	// Holds prevent the owner from creating children in this pass.
	Holds []scale.Hold

	frame  *Frame[S, U, CS, CU]
	owner  *engine.Scope[S, U]
	memory *Memory
	// candidates are the children in the cache that the owner controls or may come to control. names are the names of all objects of their
	// kind in the API server, since ShowsAll, which returns shows. highest is the highest slot among the candidates.
	candidates []Child[CS]
	names      map[string]bool
	shows      bool
	highest    int64
	// restored: the stored ledger belongs to another owner. current: this pass has written the ledger, or confirmed that it is stored.
	restored, current bool
	unkept            map[string]bool // children that were not stored as they were created, by name
	events            []engine.Event  // events that are recorded when the metadata of the owner is written
}

// Begin fills an empty Scope for an owner. memory is the memory of this owner, by its UID. The Scope retains both.
func (f *Frame[S, U, CS, CU]) Begin(s *Scope[S, U, CS, CU], owner *engine.Scope[S, U], memory *Memory) {
	s.frame, s.owner, s.memory, s.unkept = f, owner, memory, map[string]bool{}
}

// Observe reads the children of the owner and its ledger, and claims children. After an error, or when Waiting is set, nothing can be
// decided in this pass. Children that could not be adopted or released are not an error: they are in Unclaimed, and hold creations. Nor is
// an invalid selector: until it is corrected, no child is created, adopted or released.
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

// list lists the children that the owner controls, or may come to control. Other objects are read only when they match, because they may be
// unreadable.
func (s *Scope[S, U, CS, CU]) list(ctx context.Context) ([]Child[CS], error) {
	var all []Child[CS]
	owner := s.owner.Common()
	named, seen := nameKey(owner.Key.Name), map[string]bool{}
	for _, key := range []string{named, freeKey, named} { // a child whose owner changes between two lists is in one of them
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

// List returns the wanted objects of the children's kind under a key of the index; nil wants all. goes: they are to be deleted, so an
// object that cannot be read is included.
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
			if err != nil && goes { // its existence is enough to delete it; no other value is used
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

// Synced returns an error that matches engine.ErrStale before the first list of children is complete.
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

// Hold prevents the owner from creating children in this pass, for a reason and with a message for a person.
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

// Sync calls a function for each child that is not in step with its owner and has its Cluster, and remembers those for which it succeeds
// until they change. with represents the owner's values on which the children's fields that change in place depend. A child that has
// changed a moment ago is left to a later pass, and a child that is gone is not an error.
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
		if !external.IsGone(err) {
			errs = append(errs, err)
		}
	}
	s.memory.synced = synced
	return errors.Join(errs...)
}

// Memory is the memory of a process about the children of one owner between passes: store it by the UID of the owner, for example in an
// engine.Memory. Losing it costs time and reads, never correctness. Only the worker that reconciles the owner uses it.
type Memory struct {
	// Mark is scale.FreezeVerdict.Mark of the last evaluation.
	Mark contract.Opt[int]

	// lag is the time for which the cache has lacked children.
	lag Lag
	// failed are the names of the children whose last creation failed, each with the UID of the child that was not stored as it was created,
	// if there is one; other children come first.
	failed map[string]types.UID
	// synced are the versions with which the children are in step.
	synced map[types.UID]inStep
	// failure is why the last creation failed, empty when it did not.
	failure string
}

// inStep is a version of a child, and the owner's values with which it is in step.
type inStep struct{ resourceVersion, with string }

// NewMemory returns the empty memory of an owner.
func NewMemory() *Memory {
	return &Memory{failed: map[string]types.UID{}, synced: map[types.UID]inStep{}}
}

// hasFailed reports whether the creation of a child failed the last time.
func (m *Memory) hasFailed(name string) bool {
	_, failed := m.failed[name]
	return failed
}
