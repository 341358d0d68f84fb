package main

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// saboteur deletes every pod, past the budget, when the first one is evicted.
type saboteur struct {
	view
	do   func()
	once sync.Once
}

func (s *saboteur) tell(e event) {
	s.view.tell(e)
	if e.Event == happenedLeaving {
		s.once.Do(s.do)
	}
}

func TestAPodThatIsDeletedPastTheBudgetMakesTheStoryFail(t *testing.T) {
	t.Parallel()
	o, known := quick(), newPicture(time.Now())
	tale := &story{script: newScript(o), picture: known, start: known.start}
	tale.view = &saboteur{view: newView(outputLines, io.Discard, known), do: func() {
		err := tale.world.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("default"))
		require.NoError(t, err)
	}}
	err := tale.perform(t.Context(), o)
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, fmt.Sprintf("PodDisruptionBudget default/web demands %d", newScript(o).minAvailable))
	result := tale.summarise(err, o)
	require.Equal(t, exitFailed, result.exitCode())
	require.False(t, result.Budget.Kept)
}
