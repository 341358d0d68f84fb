package children

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
)

// Flush writes an owner at the end of a pass over it and its children, with the error of the steps. A pass that has read too little leaves
// the status as it is; one that has failed to read the children sets the conditions unobserved. An owner that is gone is no error.
func Flush[S, U, CS, CU any](
	ctx context.Context, s *pass.Scope[S, U], c *Scope[CS, CU], unobserved func() []metav1.Condition, err error,
) error {
	failed := err != nil && !pass.IsStale(err)
	silent := c.Waiting || (failed && s.Paused())
	if failed && !silent && !c.Known {
		s.Assert(unobserved()...)
	}
	err = s.Flush(ctx, pass.Writing[U]{
		Observes: !failed && c.Known, Silent: silent,
		Settle: func(_, _ U) (pass.SettleFacts, error) { return pass.SettleFacts{Counts: true}, nil },
	})
	if external.SaysGone(err) {
		return nil
	}
	return err
}
