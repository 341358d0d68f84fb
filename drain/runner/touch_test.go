package runner

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAWatchThatIsYetToTellWhatIsThereDoesNotBringTouchBack(t *testing.T) {
	w := listOf(new(int))
	l := w.listWatch(silent{})
	require.NoError(t, w.Replace(nil, "5"))
	synced := func() bool {
		synced, err := w.state()
		return synced && err == nil
	}
	lost := errors.New("connection refused")
	for _, streams := range []bool{true, false} {
		w.learn(lost, false)
		require.False(t, synced())
		_, err := l.WatchFuncWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &streams})
		require.NoError(t, err)
		require.Equal(t, !streams, synced(), "of a watch that goes on where it stood nothing is missed; of a new one all is")
	}
	w.learn(lost, false)
	require.NoError(t, w.Replace([]any{pod("n", "a")}, "9"))
	require.True(t, synced())
}

// silent is a server whose watches say nothing.
type silent struct{ client.WithWatch }

func (silent) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return watch.NewFake(), nil
}
