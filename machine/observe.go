package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// observeStep begins a deletion: a provider ID that a step in front of it has found is stored before anything goes, and it has to be known
// what is done about the Node.
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
