package phases_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/phases"
)

// everyFacts returns all combinations.
func everyFacts() []phases.Facts {
	var all []phases.Facts
	for bits := range 128 {
		on := func(i int) bool { return bits>>i&1 == 1 }
		all = append(all, phases.Facts{
			Deleting: on(0), BootstrapReady: on(1), InfrastructureReady: on(2), HasProviderID: on(3), HasNode: on(4),
			Updating: on(5), Failed: on(6),
		})
	}
	return all
}

// clusterAPI says what Cluster API v1.13 makes of a stored phase: later rules override earlier ones. decided is false when
// none of them holds and the stored phase stays.
func clusterAPI(stored phases.Phase, f phases.Facts) (phase phases.Phase, decided bool) {
	phase = stored
	if phase == "" {
		phase = phases.Pending
	}
	for _, rule := range []struct {
		holds bool
		phase phases.Phase
	}{
		{f.BootstrapReady && !f.InfrastructureReady, phases.Provisioning},
		{f.HasProviderID, phases.Provisioned},
		{f.HasNode && f.InfrastructureReady, phases.Running},
		{f.Updating, phases.Updating},
		{f.Deleting, phases.Deleting},
	} {
		if rule.holds {
			phase, decided = rule.phase, true
		}
	}
	return phase, decided
}

func TestCompute_IsClusterAPIsPhaseForEveryCombinationThatDecidesOne(t *testing.T) {
	for _, stored := range []phases.Phase{"", phases.Pending, phases.Provisioning, phases.Provisioned, phases.Running, phases.Deleting,
		"Failed"} {
		for _, f := range everyFacts() {
			want, decided := clusterAPI(stored, f)
			switch {
			case decided: // as it says
			case f.InfrastructureReady:
				want = phases.Provisioned // documented difference: the stored phase does not count
			default:
				want = phases.Pending
			}
			require.Equal(t, want, phases.ClusterAPI().Compute(f).Phase, "%q %+v", stored, f)
		}
	}
}

func TestCompute_IsTotal(t *testing.T) {
	waits := map[phases.Phase]phases.Gate{ // ExampleTable_Compute has the reasons
		phases.Pending: phases.GateBootstrapData, phases.Provisioning: phases.GateInfrastructure, phases.Provisioned: phases.GateNode,
		phases.Running: phases.GateNone, phases.Updating: phases.GateUpdate, phases.Deleting: phases.GateDeletion,
	}
	seen := map[phases.Phase]bool{}
	for _, f := range everyFacts() {
		d := phases.ClusterAPI().Compute(f)
		gate, known := waits[d.Phase]
		require.True(t, known, "%+v: phase %q", f, d.Phase)
		require.Equal(t, gate, d.Waiting, "%+v", f)
		require.NotEmpty(t, d.Reason)
		seen[d.Phase] = true
	}
	require.Len(t, seen, len(waits), "every phase can be reached")
}

func TestTable_KeepsAndReturnsCopies(t *testing.T) {
	rules := []phases.Rule[phases.Facts]{{Decision: phases.Decision{Phase: "A"}}}
	table, err := phases.New(rules...)
	require.NoError(t, err)
	rules[0].Phase = "changed"
	table.Rules()[0].Phase = "changed"
	require.Equal(t, phases.Phase("A"), table.Compute(phases.Facts{}).Phase)
}

func TestTable_TheZeroTableHasNoPhase(t *testing.T) {
	require.Equal(t, phases.Decision{}, new(phases.Table[phases.Facts]).Compute(phases.Facts{Deleting: true}))
}

func TestCompute_AllocatesNothing(t *testing.T) {
	var sink phases.Decision
	for _, f := range everyFacts() {
		require.Zero(t, testing.AllocsPerRun(100, func() { sink = phases.ClusterAPI().Compute(f) }), "%+v", f)
	}
	_ = sink
}

func BenchmarkCompute(b *testing.B) {
	facts := everyFacts()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_ = phases.ClusterAPI().Compute(facts[i%len(facts)])
	}
}
