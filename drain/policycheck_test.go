package drain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPolicyValidate_NamesEverythingThatIsWrong(t *testing.T) {
	zero, minus := new(int64(0)), new(int64(-1))
	err := Policy{
		GracePeriod: zero,
		Stages: []Stage{
			{After: -time.Second, Mode: ModeAbandon, Grace: minus},
			{After: -time.Second, Mode: 99},
			{Mode: ModeClamp, Grace: new(int64(5))},
		},
		Unreachable:     &UnreachablePolicy{Grace: zero, BypassBudgetsAfter: -1},
		MultipleBudgets: MultipleBudgetsPolicy{DeleteAfter: -1},
	}.Validate()
	for _, want := range []string{
		"GracePeriod is 0, which kills at once; use 1, or set AllowImmediateKill",
		"Stages[0].After must not be negative", "Stages[0].Grace must not be negative, is -1",
		"Stages[0].Grace has no meaning for ModeAbandon", "Stages[0]: nothing can follow ModeAbandon",
		"Stages[1].After must be later", "Stages[1]: unknown mode Mode(99)", "Stages[2].Grace has no meaning for ModeClamp",
		"Unreachable.Grace is 0", "Unreachable.BypassBudgetsAfter must not be negative",
		"MultipleBudgets.DeleteAfter must not be negative",
	} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, Policy{}.Validate())
	require.NoError(t, Policy{GracePeriod: zero, AllowImmediateKill: true}.Validate())
}

func TestPolicyNames_EveryValueHasOneOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for m := ModeEvict; m <= ModeAbandon+1; m++ {
		seen[m.String()] = true
	}
	for n := NodeReachable; n <= NodeGone+1; n++ {
		seen[n.String()] = true
	}
	if want := int(ModeAbandon) + 2 + int(NodeGone) + 2; len(seen) != want {
		t.Errorf("want %d names, got %v", want, seen)
	}
}
