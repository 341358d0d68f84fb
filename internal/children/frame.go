package children

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
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
}

// Frame is what the passes over all owners of a kind share: the Frame of the owners, whose index finds the children of an owner, too, and
// the children's kind. S and U are the state and the update of an owner, CS and CU those of a child. Safe for concurrent use.
type Frame[S, U, CS, CU any] struct {
	config   Config
	owner    *engine.Frame[S, U]
	kind     contract.KindOf[CS, CU]
	selector func(*S) (labels.Selector, error)
}

// NewFrame returns the Frame for owners that have a engine.Frame, with children of a kind that passes engine.CheckKind. selector says which
// children an owner selects; an owner for which it fails adopts none.
func NewFrame[S, U, CS, CU any, PS engine.State[CS], PU engine.Update[CU]](
	owner *engine.Frame[S, U], kind contract.KindOf[CS, CU], selector func(*S) (labels.Selector, error), config Config,
) *Frame[S, U, CS, CU] {
	return &Frame[S, U, CS, CU]{config, owner, kind, selector}
}

// Child is a child as a pass has read it. Object may be shared with a cache: none of them may be changed.
type Child[CS any] struct {
	Object contract.Object
	State  *CS
	*contract.Metadata
}

// child reads a child.
func (f *Frame[S, U, CS, CU]) child(obj contract.Object) (Child[CS], error) {
	state := new(CS)
	err := f.kind.Adapter.Read(obj, state)
	return Child[CS]{Object: obj, State: state, Metadata: engine.CommonOf(state).Metadata}, err
}

// says names a child in errors.
func (f *Frame[S, U, CS, CU]) says(key types.NamespacedName) string {
	return f.kind.GVK.Kind + " " + key.String()
}

// isOwner reports whether a controller reference names an owner with this name, whatever its UID.
func (f *Frame[S, U, CS, CU]) isOwner(ref *metav1.OwnerReference, name string) bool {
	return ref.Name == name && ref.Kind == f.owner.Kind.GVK.Kind && engine.Group(ref.APIVersion) == f.owner.Kind.GVK.Group
}

// existing reads an object that is said to exist from the API server itself. The error matches engine.ErrStale when it is gone.
func (f *Frame[S, U, CS, CU]) existing(ctx context.Context, into client.Object, kind string, key types.NamespacedName) error {
	err := f.owner.Ports.APIReader.Get(ctx, key, into)
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
func (s *Scope[S, U, CS, CU]) Flush(ctx context.Context, unobserved func() []metav1.Condition, err error) error {
	failed := err != nil && !engine.IsStale(err)
	silent := s.Waiting || (failed && s.owner.Paused())
	if failed && !silent && !s.Known {
		s.owner.Assert(unobserved()...)
	}
	err = s.owner.Flush(ctx, engine.Writing{Observes: !failed && s.Known, Silent: silent})
	if err == nil {
		s.owner.Record(s.told...)
	}
	return err
}
