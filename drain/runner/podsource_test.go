package runner_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/machinist-dev/machinist/drain/runner"
	"github.com/machinist-dev/machinist/fake"
)

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return ok(), nil })
	require.NoError(t, err, "waiting until %s", what)
}

func bound(node, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func TestPodSource_FollowsOneNodeFromTheFirstLookToTheRelease(t *testing.T) {
	store := fake.NewStore(fake.Options{})
	c := store.Client()
	require.NoError(t, c.Create(t.Context(), bound("n1", "a")))
	require.NoError(t, c.Create(t.Context(), bound("n2", "b")))
	source := runner.NewPodSource(c)
	runner.SetBackoff(source, 5*time.Millisecond, 20*time.Millisecond)
	pods, synced, err := source.Pods("n1")
	require.NoError(t, err)
	require.False(t, synced, "nothing is known before Run")
	require.Empty(t, pods)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var changes atomic.Int32
	go func() { ended <- source.Run(ctx, func(string) { changes.Add(1) }) }()
	names := func(node string) []string {
		pods, synced, err := source.Pods(node)
		if err != nil || !synced {
			return nil
		}
		out := []string{}
		for _, pod := range pods {
			out = append(out, pod.Name)
		}
		return out
	}
	poll(t, "the Node's pods are known", func() bool { return len(names("n1")) == 1 })
	require.Equal(t, []string{"a"}, names("n1"))

	require.NoError(t, c.Create(t.Context(), bound("n1", "late")))
	poll(t, "a new pod is seen", func() bool { return len(names("n1")) == 2 })

	// A watch that cannot be opened again makes the source lose touch, and say why.
	podKind := schema.GroupKind{Kind: "Pod"}
	mend := store.Inject(fake.Fault{Match: fake.Match("", podKind, ""), Err: errors.New("connection refused"), Times: -1})
	source.Release("n1")
	poll(t, "the failure is reported", func() bool {
		_, synced, err := source.Pods("n1")
		return !synced && err != nil
	})
	mend()
	poll(t, "the source recovers", func() bool { return len(names("n1")) == 2 })

	source.Release("n1")
	source.Release("n1")
	seen := changes.Load()
	require.NoError(t, c.Create(t.Context(), bound("n1", "unseen")))
	require.NoError(t, c.Create(t.Context(), bound("n2", "seen")))
	poll(t, "another Node is known", func() bool { return len(names("n2")) == 2 })
	require.LessOrEqual(t, changes.Load()-seen, int32(2), "a released Node makes no changes")

	cancel()
	require.NoError(t, <-ended)
	_, synced, _ = source.Pods("n2")
	require.False(t, synced, "nothing is known after the end")
}
