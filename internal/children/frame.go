package children

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

// Config says how the owners of a kind keep children of another kind. Only Name is required.
type Config struct {
	// Name is what the reasons of holds call a child, such as Machine. Messages and events have its kind.
	Name string
	// GivenAnnotation of a child holds what the owner gave it, as a Given: a child that has lost labels is released. When it is empty, no
	// child is released.
	GivenAnnotation string
	// Marks are the annotations of children by which the owner chooses which ones to delete.
	Marks []string
	// PassLimit is how long one pass continues to create children; zero is no limit.
	PassLimit time.Duration
}

// Frame is what the passes over all owners of a kind share: the children's kind, the ports, and the index under which an owner finds its
// children. CS and CU are the state and the update of a child. Safe for concurrent use.
type Frame[CS, CU any] struct {
	config   Config
	kind     contract.KindOf[CS, CU]
	owner    schema.GroupVersionKind
	newOwner func() client.Object
	owners   owners
	refer    func(owner *contract.Metadata, controls bool) metav1.OwnerReference
	selects  func(client.Object) (labels.Selector, error)
	ports    engine.Ports
	writer   *patch.Writer
	clock    clock.PassiveClock
}

// owners are the methods of a engine.Frame that do not depend on the owner's state.
type owners interface {
	IndexName() string
	IndexOther(ctx context.Context, obj client.Object, kind string, keys client.IndexerFunc) error
	Each(ctx context.Context, namespace, key string, do func(client.Object)) error
	ControllerOf(obj metav1.Object) []reconcile.Request
	MatchesWatchFilter(obj metav1.Object) bool
}

// NewFrame returns the Frame for owners that have a engine.Frame, with children of a kind that passes engine.CheckKind. selector says which
// children an owner selects; an owner for which it fails adopts none.
func NewFrame[S, U, CS, CU any, PS engine.State[CS], PU engine.Update[CU]](
	owner *engine.Frame[S, U], kind contract.KindOf[CS, CU], selector func(*S) (labels.Selector, error), config Config,
) *Frame[CS, CU] {
	return &Frame[CS, CU]{
		config: config, kind: kind, owner: owner.Kind.GVK, owners: owner, refer: owner.OwnerReference,
		newOwner: func() client.Object { return engine.NewObject(owner.Kind) },
		selects: func(obj client.Object) (labels.Selector, error) {
			var s S
			if err := owner.Read(obj, &s); err != nil {
				return nil, err
			}
			return selector(&s)
		},
		ports: owner.Ports, writer: owner.Writer, clock: owner.Options.Clock,
	}
}

// Owner is the object whose children a pass keeps. A Scope that embeds engine.Scope has these methods.
type Owner interface {
	// Common returns the members of the owner's state, as they are after the last Commit.
	Common() contract.Common
	// ChangeAnnotation and Commit write the creation ledger on the version of the owner that was read.
	ChangeAnnotation(key string, to contract.Change[string])
	Commit(ctx context.Context) error
	Eventf(kind, reason, action, note string, args ...any)
	Requeue(after time.Duration)
}

// Child is a child as a pass has read it. Object may be shared with a cache: none of them may be changed.
type Child[CS any] struct {
	Object contract.Object
	State  *CS
	*contract.Metadata
}

// child reads a child.
func (f *Frame[CS, CU]) child(obj contract.Object) (Child[CS], error) {
	state := new(CS)
	err := f.kind.Adapter.Read(obj, state)
	return Child[CS]{Object: obj, State: state, Metadata: engine.CommonOf(state).Metadata}, err
}

// says names a child in errors.
func (f *Frame[CS, CU]) says(key types.NamespacedName) string {
	return f.kind.GVK.Kind + " " + key.String()
}

// isOwner reports whether a controller reference names an owner with this name, whatever its UID.
func (f *Frame[CS, CU]) isOwner(ref *metav1.OwnerReference, name string) bool {
	return ref.Name == name && ref.Kind == f.owner.Kind && engine.Group(ref.APIVersion) == f.owner.Group
}

// existing reads an object that is said to exist from the API server itself. The error matches engine.ErrStale when it is gone.
func (f *Frame[CS, CU]) existing(ctx context.Context, into client.Object, kind string, key types.NamespacedName) error {
	err := f.ports.APIReader.Get(ctx, key, into)
	switch {
	case external.SaysGone(err):
		return fmt.Errorf("%w: %s %s has gone a moment ago", engine.ErrStale, kind, key)
	case err != nil:
		return fmt.Errorf("read %s %s: %w", kind, key, err)
	}
	return nil
}

// Flush writes an owner at the end of a pass over it and its children, with the error of the steps. A pass that has read too little leaves
// the status as it is; one that has failed to read the children sets the conditions unobserved.
func Flush[S, U, CS, CU any](
	ctx context.Context, s *engine.Scope[S, U], c *Scope[CS, CU], unobserved func() []metav1.Condition, err error,
) error {
	failed := err != nil && !engine.IsStale(err)
	silent := c.Waiting || (failed && s.Paused())
	if failed && !silent && !c.Known {
		s.Assert(unobserved()...)
	}
	err = s.Flush(ctx, engine.Writing{Observes: !failed && c.Known, Silent: silent, Guarded: true})
	if err == nil {
		s.Record(c.told...)
	}
	return err
}
