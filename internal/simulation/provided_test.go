package simulation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

func TestAProviderThatIsSlowOrPausedDoesNothing(t *testing.T) {
	t.Parallel()
	w, err := newWorld(t.Context(), Replayed([]uint32{1, 1}), Options{})
	require.NoError(t, err)
	defer w.stop()
	require.NotNil(t, w.provided)
	part := &unstructured.Unstructured{Object: map[string]any{}}
	part.SetUID("part")
	require.True(t, w.works(part))
	w.writers.idle[types.UID("part")] = w.Now().Add(time.Minute)
	require.False(t, w.works(part))
	w.clock.Step(time.Minute)
	require.True(t, w.works(part))
	part.SetAnnotations(map[string]string{contract.PausedAnnotation: ""})
	require.False(t, w.works(part))
}
