package conformance

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

// What a layout gains is linted without another word here, unless its type is new.
func TestPlaces_EveryFieldOfEveryLayoutCanBeJudged(t *testing.T) {
	known := []string{"bool", "string", "32-bit integer", "integer", "time", "object", "list of strings", "list of addresses",
		"list of conditions", "map of strings"}
	for _, role := range Roles() {
		for _, v := range contract.AllVersions() {
			places := placesOf(role, v)
			require.NotEmpty(t, places, "%s has no layout for contract %s", role, v)
			for _, p := range places {
				require.Contains(t, known, p.Type, "%s: shapeOf does not know the type of %s", role, p.Name)
				require.NotEmpty(t, p.rule.name)
				require.NotEmpty(t, p.rule.why)
				for _, path := range p.Paths {
					_, errs := p.Read(wrongAt(path))
					require.ErrorIs(t, errors.Join(errs...), contract.ErrWrongType, "%s %s of %s", v, path, role)
				}
			}
		}
		require.Empty(t, placesOf(role, "v9"))
	}
}

// wrongAt returns an object with a value at a place that is of no type that any field takes.
func wrongAt(p contract.Path) map[string]any {
	segments := p.Segments()
	var value any = 1.5
	for _, key := range slices.Backward(segments) {
		value = map[string]any{key: value}
	}
	object, _ := value.(map[string]any)
	return object
}

func TestPlaces_MustBeThoseOfTheContractsPages(t *testing.T) {
	for role, want := range map[Role]map[contract.Version][]string{
		InfraMachine: {
			contract.V1Beta2: {"status.initialization.provisioned", "spec.providerID"},
			contract.V1Beta1: {"status.ready", "spec.providerID"},
		},
		InfraMachinePool: {
			contract.V1Beta2: {"status.initialization.provisioned", "spec.providerIDList", "status.replicas"},
			contract.V1Beta1: {"status.ready", "spec.providerIDList", "status.replicas"},
		},
		BootstrapConfig: {
			contract.V1Beta2: {"status.initialization.dataSecretCreated", "status.dataSecretName"},
			contract.V1Beta1: {"status.ready", "status.dataSecretName"},
		},
		InfraMachineTemplate:     {contract.V1Beta2: {"spec.template.spec"}},
		InfraMachinePoolTemplate: {contract.V1Beta2: {"spec.template.spec"}},
		BootstrapConfigTemplate:  {contract.V1Beta2: {"spec.template.spec"}},
	} {
		for v, paths := range want {
			var got, should []string
			for _, p := range placesOf(role, v) {
				if p.Need == Must {
					got = append(got, p.main.String())
				} else if p.Need == Should {
					should = append(should, p.main.String())
				}
			}
			require.Equal(t, paths, got, "%s by contract %s", role, v)
			if !role.isTemplate() {
				require.Equal(t, []string{"status.conditions"}, should, "%s by contract %s", role, v)
			}
		}
	}
}
