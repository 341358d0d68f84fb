package fake_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/machinist-dev/machinist/fake"
)

func TestNoGoroutineIsLeft(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	finished := store.Start(ctx, fake.AllLoops())
	w, err := store.Client().Watch(ctx, &corev1.PodList{})
	require.NoError(t, err)
	cancel()
	finished()
	for range w.ResultChan() { // closed by the end of the context
	}
	// Sequential tests end before parallel ones go on, so the only loops and watches left could be this test's.
	err = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		buf := make([]byte, 1<<20)
		stacks := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(stacks, "fake.runLoop") && !strings.Contains(stacks, "fake.(*watcher)"), nil
	})
	require.NoError(t, err)
}
