package phases_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/phases"
)

type pair struct{ A, B bool }

func rule(phase phases.Phase, when func(pair) bool) phases.Rule[pair] {
	return phases.Rule[pair]{Decision: phases.Decision{Phase: phase, Reason: "R"}, When: when}
}

func TestNew_RefusesTablesWithHolesOrRulesThatDecideNothing(t *testing.T) {
	a := func(f pair) bool { return f.A }
	b := func(f pair) bool { return f.B }
	both := func(f pair) bool { return f.A && f.B }
	never := func(f pair) bool { return f.A && !f.A }
	for name, c := range map[string]struct {
		rules []phases.Rule[pair]
		want  string
	}{
		"no rules":   {nil, "the last rule must always hold (When nil)"},
		"no default": {[]phases.Rule[pair]{rule("A", a)}, "the last rule must always hold (When nil)"},
		"a rule behind one that always holds": {[]phases.Rule[pair]{rule("A", nil), rule("B", nil)},
			"rule 1 (B, R) can never be reached: no combination of facts gets there"},
		"a rule behind a wider one": {[]phases.Rule[pair]{rule("A", a), rule("AB", both), rule("C", nil)},
			"rule 1 (AB, R) can never be reached: no combination of facts gets there"},
		"a rule behind two that share its cases": {
			[]phases.Rule[pair]{rule("A", a), rule("B", b), rule("one", func(f pair) bool { return f.A != f.B }), rule("C", nil)},
			"rule 2 (one, R) can never be reached: no combination of facts gets there"},
		"a rule that never holds": {[]phases.Rule[pair]{rule("A", never), rule("C", nil)},
			"rule 0 (A, R) can never be reached: no combination of facts gets there"},
		"everything wrong at once": {[]phases.Rule[pair]{rule("A", nil), rule("", a)},
			"rule 1 has no phase\nthe last rule must always hold (When nil)\nrule 1 (, R) can never be reached: no combination of facts gets there"},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := phases.New(c.rules...)
			require.Nil(t, table)
			require.EqualError(t, err, c.want)
		})
	}
	table, err := phases.New(rule("AB", both), rule("A", a), rule("C", nil))
	require.NoError(t, err)
	require.Equal(t, phases.Phase("C"), table.Compute(pair{}).Phase)
}

func TestNew_RefusesFactsThatItCannotLookAtInFull(t *testing.T) {
	rules := func(err error, text string) {
		t.Helper()
		require.ErrorContains(t, err, "facts must be a struct of exported bools: ")
		require.ErrorContains(t, err, text)
	}
	_, err := phases.New(phases.Rule[int]{Decision: phases.Decision{Phase: "A"}})
	rules(err, "int is none")
	_, err = phases.New(phases.Rule[struct{ N int }]{Decision: phases.Decision{Phase: "A"}})
	rules(err, "N is a int")
	_, err = phases.New(phases.Rule[struct{ hidden bool }]{Decision: phases.Decision{Phase: "A"}})
	rules(err, "hidden is not exported")
	type seventeen struct{ A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q bool }
	_, err = phases.New(phases.Rule[seventeen]{Decision: phases.Decision{Phase: "A"}})
	rules(err, "has 17, at most 16 are allowed")
}

// The dialects are made without New, because a variable cannot return an error.
func TestTheDialectsWouldBeAcceptedByNew(t *testing.T) {
	for name, table := range map[string]*phases.Table[phases.Facts]{
		"Cluster API": phases.ClusterAPI(), "v1beta1": phases.ClusterAPIV1Beta1(), "v1alpha3": phases.ClusterAPIV1Alpha3(),
	} {
		_, err := phases.New(table.Rules()...)
		require.NoError(t, err, name)
	}
	_, err := phases.New(phases.Kubermatic().Rules()...)
	require.NoError(t, err)
	_, err = phases.New(phases.Gardener().Rules()...)
	require.NoError(t, err)
}
