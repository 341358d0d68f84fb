package phases_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/phases"
)

type pair struct{ A, B bool }

func rule(phase phases.Phase, when func(pair) bool) phases.Rule[pair] {
	return phases.Rule[pair]{Decision: phases.Decision{Phase: phase, Reason: "R"}, When: when}
}

func TestNew_RefusesTablesWithHoles(t *testing.T) {
	a := func(f pair) bool { return f.A }
	both := func(f pair) bool { return f.A && f.B }
	for name, c := range map[string]struct {
		rules []phases.Rule[pair]
		want  string
	}{
		"no rules":   {nil, "the last rule must always hold (When nil)"},
		"no default": {[]phases.Rule[pair]{rule("A", a)}, "the last rule must always hold (When nil)"},
		"everything wrong at once": {[]phases.Rule[pair]{rule("A", nil), rule("", a)},
			"rule 1 has no phase\nthe last rule must always hold (When nil)"},
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

// The dialects are made without New, because a variable cannot return an error.
func TestTheDialectsHaveNoHolesAndNoRuleThatDecidesNothing(t *testing.T) {
	t.Run("Cluster API", func(t *testing.T) { everyRuleDecides(t, phases.ClusterAPI()) })
	t.Run("v1beta1", func(t *testing.T) { everyRuleDecides(t, phases.ClusterAPIV1Beta1()) })
	t.Run("v1alpha3", func(t *testing.T) { everyRuleDecides(t, phases.ClusterAPIV1Alpha3()) })
	t.Run("Kubermatic", func(t *testing.T) { everyRuleDecides(t, phases.Kubermatic()) })
	t.Run("Gardener", func(t *testing.T) { everyRuleDecides(t, phases.Gardener()) })
	t.Run("pools", func(t *testing.T) { everyRuleDecides(t, phases.MachinePool()) })
}

// everyRuleDecides looks at every combination of the facts.
func everyRuleDecides[F comparable](t *testing.T, table *phases.Table[F]) {
	t.Helper()
	_, err := phases.New(table.Rules()...)
	require.NoError(t, err)
	decides := map[phases.Decision]bool{}
	for bits := range 1 << reflect.TypeFor[F]().NumField() {
		var facts F
		for i := range reflect.TypeFor[F]().NumField() {
			reflect.ValueOf(&facts).Elem().Field(i).SetBool(bits>>i&1 == 1)
		}
		decides[table.Compute(facts)] = true
	}
	for _, rule := range table.Rules() {
		require.True(t, decides[rule.Decision], "%+v", rule.Decision)
	}
}
