package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func podOn(node, name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}, Spec: corev1.PodSpec{NodeName: node}}
}

// listOf returns the list of the Pods of a Node, which counts what it reports.
func listOf(told *int) *list {
	l := newList(&corev1.PodList{}, nil, nil)
	l.changed = func(client.Object) {
		_, _ = l.state() // the listener may look at once
		*told++
	}
	return l
}

func TestTheStoreOfANodeReportsEachChange(t *testing.T) {
	told := 0
	w := listOf(&told)
	has := func(tells int, synced bool, uids ...types.UID) {
		t.Helper()
		listed, lost := w.state()
		isSynced := listed && lost == nil
		var got []types.UID
		for _, pod := range typed[corev1.Pod](w.List()) {
			got = append(got, pod.UID)
		}
		require.ElementsMatch(t, uids, got)
		require.Equal(t, synced, isSynced)
		require.Equal(t, tells, told)
	}
	require.NoError(t, w.Add(podOn("n", "a", "1")))
	has(1, false, "1")
	require.NoError(t, w.Replace([]any{podOn("n", "a", "1")}, ""))
	has(2, true, "1")
	require.NoError(t, w.Update(podOn("n", "a", "4")))
	has(3, true, "4")
	w.learn(nil, false)
	has(3, true, "4")
	w.learn(errors.New("lost"), false)
	has(4, false, "4")
	w.learn(nil, false)
	has(5, true, "4")
	require.NoError(t, w.Delete(podOn("n", "a", "4")))
	has(6, true)
}

func TestASourceOfPodsEndsAfterItsWatches(t *testing.T) {
	opened, returned := make(chan struct{}, 1), make(chan struct{})
	open := func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
		opened <- struct{}{}
		<-ctx.Done()
		select {
		case <-returned:
			t.Error("Run has returned, and a watch goes on")
		case <-time.After(50 * time.Millisecond): // a Run that does not wait returns sooner
		}
		return nil, ctx.Err()
	}
	// in place of a watch that failed
	list := func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
		<-ctx.Done()
		return ctx.Err()
	}
	s := newLists(interceptor.NewClient(nil, interceptor.Funcs{Watch: open, List: list}))
	_, _, _ = s.Pods("n")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, func(string) {}); close(returned) }()
	<-opened
	cancel()
	require.NoError(t, <-ended)
}
