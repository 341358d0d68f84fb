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
