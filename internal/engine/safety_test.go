package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/internal/engine"
)

func TestAListOfStepsThatIsNotSafeIsRefused(t *testing.T) {
	rules := engine.Safety{
		Keep: "finalizer", Release: "remove-finalizer", Harmless: []string{"paused"},
		Needs: []engine.Need{{Step: "finalizer", Needs: "paused", Why: "it would be changed"}},
	}
	own := step{Name: "own", On: engine.InBoth, Run: func(context.Context, *scope) (engine.Result, error) { return engine.Result{}, nil }}
	late := slices.Concat(standard(), []step{own})
	partly := standard()
	partly[0].On = engine.InDeletion
	closing := own
	closing.Closing = true
	acting := slices.Concat(standard()[:1], []step{{Name: "act", On: engine.InBoth, Run: own.Run}})
	for name, tc := range map[string]struct {
		steps, standard []step
		want            string
	}{
		"all":                         {steps: standard()},
		"one more at the end":         {steps: append(standard(), closing)},
		"the paused step and another": {steps: append(standard()[:1:1], own)},
		"one that may run too late": {steps: late,
			want: "step own is after remove-finalizer, and the Thing may be gone before it is done"},
		"no removal of the finalizer": {steps: standard()[:2], want: "no step remove-finalizer in InDeletion: a Thing would stay for ever"},
		"no finalizer for a step that acts": {steps: acting, standard: append(standard(), acting[1]),
			want: "no step finalizer in InRunning: a Thing could vanish"},
		"nothing that it needs": {steps: standard()[1:],
			want: "step finalizer needs step paused in front of it, or it would be changed"},
		"what it needs in another life": {steps: partly, want: "step finalizer needs step paused in front of it"},
		"what CheckSteps reports":       {steps: append(standard(), standard()[0]), want: `duplicate step "paused"`},
	} {
		t.Run(name, func(t *testing.T) {
			all := standard()
			if tc.standard != nil {
				all = tc.standard
			}
			err := engine.CheckSafety(tc.steps, all, "Thing", rules)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}
