package machine

import (
	"context"
)

// observeStep reads what a Machine in deletion needs to know. It takes over what the infrastructure still reports, since a
// Machine may be deleted before it knew its own Node.
func observeStep(ctx context.Context, s *Scope) (Result, error) {
	var total Result
	for _, look := range []StepFunc{bootstrapStep, infrastructureStep, nodeStep} {
		result, err := look(ctx, s)
		if err != nil {
			return Result{}, err
		}
		total.RequeueAfter = soonest(total.RequeueAfter, result.RequeueAfter)
	}
	return total, nil
}
