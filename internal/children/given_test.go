package children_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/children"
)

func TestGivenChanges(t *testing.T) {
	t.Parallel()
	wanted := map[string]string{"pool": "workers"}
	have := &contract.Metadata{Labels: wanted}
	before := children.Given{Labels: map[string]string{"pool": "workers", "new": "2"}, Annotations: []string{"other"}}

	t.Run("a child loses what is shown", func(t *testing.T) {
		require.Empty(t, before.Changes(have, wanted, nil).Labels)
	})
	t.Run("nothing is to be taken back", func(t *testing.T) {
		u := children.Given{Labels: wanted}.Changes(have, wanted, nil)
		require.Empty(t, u.Labels)
		require.Empty(t, u.Annotations)
	})
}
