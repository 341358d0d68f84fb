package machine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/internal/engine"
)

func TestAFailedStepIsALineOfReady(t *testing.T) {
	refused := fmt.Errorf("write Node n: %w", apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil))
	for name, tc := range map[string]struct {
		step string
		err  error
		says bool
	}{
		"a step of an embedder":                      {"own", errors.New("boom"), true},
		"a step with a condition of its own":         {StepNode, refused, false},
		"a label that a Node does not take":          {StepPropagate, refused, true},
		"a Node that could not be written this time": {StepPropagate, errors.New("timeout"), false},
	} {
		t.Run(name, func(t *testing.T) {
			step := Step{Name: tc.step}
			if at := engine.Position(Steps(), tc.step, engine.InBoth); at >= 0 {
				step = Steps()[at]
			}
			step.Run = func(context.Context, *Scope) (Result, error) { return Result{}, tc.err }
			s := attached(&Scope{})
			_, err := runStep(t.Context(), &step, s)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.says, len(s.failures) > 0)
		})
	}
}
