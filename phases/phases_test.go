package phases_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/phases"
)

func TestCompute_FollowsClusterAPIsRules(t *testing.T) {
	for name, c := range map[string]struct {
		facts phases.Facts
		want  phases.Decision
	}{
		"a new Machine waits for bootstrap data": {
			phases.Facts{}, phases.Decision{Phase: phases.Pending, Reason: "WaitingForBootstrapData", Waiting: phases.GateBootstrapData},
		},
		"bootstrap data without infrastructure is Provisioning": {
			phases.Facts{BootstrapReady: true},
			phases.Decision{Phase: phases.Provisioning, Reason: "BootstrapDataCreated", Waiting: phases.GateInfrastructure},
		},
		"provisioned infrastructure is Provisioned": {
			phases.Facts{BootstrapReady: true, InfrastructureReady: true, HasProviderID: true},
			phases.Decision{Phase: phases.Provisioned, Reason: "InfrastructureProvisioned", Waiting: phases.GateNode},
		},
		"infrastructure before bootstrap goes from Pending to Provisioned directly": {
			phases.Facts{InfrastructureReady: true, HasProviderID: true},
			phases.Decision{Phase: phases.Provisioned, Reason: "InfrastructureProvisioned", Waiting: phases.GateNode},
		},
		"a provider ID alone is Provisioned": {
			phases.Facts{BootstrapReady: true, HasProviderID: true},
			phases.Decision{Phase: phases.Provisioned, Reason: "InfrastructureProvisioned", Waiting: phases.GateNode},
		},
		"provisioned without a provider ID is Provisioned too": {
			phases.Facts{BootstrapReady: true, InfrastructureReady: true},
			phases.Decision{Phase: phases.Provisioned, Reason: "InfrastructureProvisioned", Waiting: phases.GateNode},
		},
		"a Node makes it Running": {
			phases.Facts{BootstrapReady: true, InfrastructureReady: true, HasProviderID: true, HasNode: true},
			phases.Decision{Phase: phases.Running, Reason: "NodeJoined", Waiting: phases.GateNone},
		},
		"a Node that is there before bootstrap data makes it Running": {
			phases.Facts{InfrastructureReady: true, HasNode: true},
			phases.Decision{Phase: phases.Running, Reason: "NodeJoined", Waiting: phases.GateNone},
		},
		"a Node without infrastructure does not": {
			phases.Facts{BootstrapReady: true, HasNode: true},
			phases.Decision{Phase: phases.Provisioning, Reason: "BootstrapDataCreated", Waiting: phases.GateInfrastructure},
		},
		"deletion wins over everything": {
			phases.Facts{Deleting: true, BootstrapReady: true, InfrastructureReady: true, HasProviderID: true, HasNode: true},
			phases.Decision{Phase: phases.Deleting, Reason: "DeletionRequested", Waiting: phases.GateDeletion},
		},
		"deletion of a new Machine": {
			phases.Facts{Deleting: true}, phases.Decision{Phase: phases.Deleting, Reason: "DeletionRequested", Waiting: phases.GateDeletion},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, phases.ClusterAPI().Compute(c.facts)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

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
	waits := map[phases.Phase]phases.Gate{
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

func TestTable_KeepsAndGivesCopies(t *testing.T) {
	rules := []phases.Rule[phases.Facts]{{Decision: phases.Decision{Phase: "A"}}}
	table, err := phases.New(rules...)
	require.NoError(t, err)
	rules[0].Phase = "changed"
	table.Rules()[0].Phase = "changed"
	require.Equal(t, phases.Phase("A"), table.Compute(phases.Facts{}).Phase)

	again, err := phases.New(phases.ClusterAPI().Rules()...)
	require.NoError(t, err)
	for _, f := range everyFacts() {
		require.Equal(t, phases.ClusterAPI().Compute(f), again.Compute(f))
	}
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
