package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

func TestInPlace(t *testing.T) {
	for text, want := range map[string]contract.InPlace{
		"selected/workers-abc":  {State: contract.InPlaceSelected, Set: "workers-abc"},
		"candidate/workers-abc": {State: contract.InPlaceCandidate, Set: "workers-abc"},
		"updated/w":             {State: contract.InPlaceUpdated, Set: "w"},
		"failed/w":              {State: contract.InPlaceFailed, Set: "w"},
		"moved/w":               {State: contract.InPlaceMoved, Set: "w"},
		"":                      {},
		"selected":              {},
		"selected/":             {},
		"/workers-abc":          {},
		"done/workers-abc":      {},
	} {
		annotations := map[string]string{contract.InPlaceAnnotation: text}
		got := contract.ReadInPlace(annotations)
		require.Equal(t, want, got, text)
		if want.State != "" {
			require.Equal(t, text, got.String())
		}
		state := contract.MachineState{Metadata: contract.Metadata{Annotations: annotations}}
		require.Equal(t, want.State == contract.InPlaceSelected, state.UpdatingInPlace(), text)
	}
}
