package engine

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
)

// SetFinalizers replaces the finalizers.
func (s *Scope[S, U]) SetFinalizers(names []string) {
	have := s.Common()
	if slices.Equal(have.Finalizers, names) {
		return
	}
	have.Finalizers = names
	s.changes().Finalizers = contract.SetTo(names)
}

// AddFinalizer adds the finalizer of the Frame, and reports whether it was missing. A pass changes no other object before it is stored:
// an object without a finalizer could vanish and leave behind what was made for it.
func (s *Scope[S, U]) AddFinalizer() bool {
	have := s.Common().Finalizers
	if slices.Contains(have, s.frame.Finalizer) {
		return false
	}
	s.SetFinalizers(append(slices.Clone(have), s.frame.Finalizer))
	return true
}

// RemoveFinalizer removes the finalizer of the Frame.
func (s *Scope[S, U]) RemoveFinalizer() {
	s.SetFinalizers(slices.DeleteFunc(slices.Clone(s.Common().Finalizers), func(name string) bool {
		return name == s.frame.Finalizer
	}))
}

// Keep adds the finalizer of the Frame, joins the Cluster, see JoinCluster, and writes both before anything else is changed. It stops a
// pass in which that fails.
func (s *Scope[S, U]) Keep(ctx context.Context, adoptedBy ...string) (Result, error) {
	s.AddFinalizer()
	if err := s.JoinCluster(ctx, adoptedBy...); err != nil {
		return Result{Stop: true}, err
	}
	return s.StoreFinalizer(ctx)
}

// ClusterChanged is the message about an object of a kind that names another Cluster than before.
func ClusterChanged(kind string, object contract.Common, from string) string {
	return fmt.Sprintf("%s %s has the Cluster %q and had %q: the name of a Cluster cannot be changed: change it back",
		kind, object.Key, object.ClusterName, from)
}

// StoreFinalizer adds the finalizer of the Frame, and writes it before anything else is changed. It stops a pass in which that fails,
// also when the API server accepts the write and does not store the finalizer.
func (s *Scope[S, U]) StoreFinalizer(ctx context.Context) (Result, error) {
	s.AddFinalizer()
	err := s.Commit(ctx)
	if name := s.frame.Finalizer; err == nil && !slices.Contains(s.Common().Finalizers, name) {
		err = fmt.Errorf("the API server accepted the finalizer %s of %s and did not store it: change the webhook that removes it",
			name, s.frame.name(s.Common().Key))
	}
	return Result{Stop: err != nil}, err
}

// Release removes the finalizer of the Frame now. The status stays as it is, and the object is forgotten at the end of the pass. An
// object that is gone is no error.
func (s *Scope[S, U]) Release(ctx context.Context) error {
	s.RemoveFinalizer()
	if err := s.Commit(ctx); err != nil && !external.SaysGone(err) {
		return err
	}
	s.released = true
	return nil
}

// IsOrphaning reports whether the object is being deleted without what it owns: the garbage collector removes the owner references.
func (s *Scope[S, U]) IsOrphaning() bool {
	return s.Deleting() && slices.Contains(s.Common().Finalizers, metav1.FinalizerOrphanDependents)
}
