package runner

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
)

// listOf returns the list of the Pods of a Node, which counts what it reports.
func listOf(reported *int) *list {
	l := newList(&corev1.PodList{}, nil, nil)
	l.changed = func(client.Object) {
		_, _ = l.state() // the listener may look at once
		*reported++
	}
	return l
}

func TestListReports(t *testing.T) {
	reported := 0
	w := listOf(&reported)
	has := func(reports int, synced bool, uids ...types.UID) {
		t.Helper()
		listed, lost := w.state()
		isSynced := listed && lost == nil
		var got []types.UID
		for _, pod := range typed[corev1.Pod](w.List()) {
			got = append(got, pod.UID)
		}
		require.ElementsMatch(t, uids, got)
		require.Equal(t, synced, isSynced)
		require.Equal(t, reports, reported)
	}
	podOf := func(uid types.UID) *corev1.Pod {
		p := pod("n", "a")
		p.UID = uid
		return p
	}
	require.NoError(t, w.Add(podOf("1")))
	has(1, false, "1")
	require.NoError(t, w.Replace([]any{podOf("1")}, ""))
	has(2, true, "1")
	require.NoError(t, w.Update(podOf("4")))
	has(3, true, "4")
	w.record(nil, false)
	has(3, true, "4")
	w.record(errors.New("lost"), false)
	has(4, false, "4")
	w.record(nil, false)
	has(5, true, "4")
	require.NoError(t, w.Delete(podOf("4")))
	has(6, true)
}

// silent is a server whose watches send nothing.
type silent struct{ client.WithWatch }

func (silent) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return watch.NewFake(), nil
}

func TestListLosesTouch(t *testing.T) {
	w := listOf(new(int))
	l := w.listWatch(silent{})
	require.NoError(t, w.Replace(nil, "5"))
	synced := func() bool {
		synced, err := w.state()
		return synced && err == nil
	}
	lost := errors.New("connection refused")
	for _, streams := range []bool{true, false} {
		w.record(lost, false)
		require.False(t, synced())
		_, err := l.WatchFuncWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &streams})
		require.NoError(t, err)
		require.Equal(t, !streams, synced(), "a watch that goes on where it stood misses nothing; a new one has yet to send what is there")
	}
	w.record(lost, false)
	require.NoError(t, w.Replace([]any{pod("n", "a")}, "9"))
	require.True(t, synced())
}

func TestSourceEnds(t *testing.T) {
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

// asked fails a test whose code asks the API server, or the cache of the cluster, for anything but Nodes.
type asked struct {
	ctrlcluster.Cluster
	t *testing.T
}

func (a asked) GetCache() cache.Cache {
	a.t.Error("the cache of the cluster is asked: what it watches has to be listed before anything else goes on")
	return nil
}

func TestIdleRunner(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) }))
	defer server.Close()
	mapper := func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil }
	c, err := ctrlcluster.New(&rest.Config{Host: server.URL}, func(o *ctrlcluster.Options) { o.MapperProvider = mapper })
	require.NoError(t, err)
	idle, err := NewForCluster(asked{c, t}, nil)
	require.NoError(t, err)
	_, err = idle.NamespaceLabels(t.Context())
	require.ErrorIs(t, err, ErrNotListed)
	for _, metrics := range []*Metrics{nil, NewMetrics()} {
		drainer, err := NewForCluster(asked{c, t}, metrics)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- drainer.Start(ctx) }()
		cancel()
		require.NoError(t, <-ended)
	}
}
