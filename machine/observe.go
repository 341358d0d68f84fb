package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observeStep begins a deletion: a provider ID that an earlier step has found is stored before anything is deleted, and the decision about
// the Node must be known.
func observeStep(_ context.Context, s *Scope) (Result, error) {
	s.Assert(condition(ConditionDeleting, metav1.ConditionTrue, ReasonDeleting, "Deletion started"))
	if !s.update.ProviderID.Keeps() {
		return Result{Checkpoint: true}, s.forgotten()
	}
	if s.care() == CareUnknown {
		return s.careUnknown()
	}
	return Result{}, nil
}
