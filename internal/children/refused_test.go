package children_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/fake"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	t.Run("a refusal is over when another process has made the child", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		s, _ := w.pass()
		w.store.FailNext(func(r fake.Request) bool { return r.Verb == "create" && r.GVK.Kind == "MachineSet" }, errors.New("quota"))
		require.Error(t, w.grow(s, 1))
		require.Contains(t, s.Refused(), "quota")
		refused := w.memory
		w.memory = newMemory()
		s, _ = w.pass()
		require.NoError(t, w.grow(s, 0))
		w.memory = refused
		s, _ = w.pass()
		require.Empty(t, s.Refused())
	})
}
