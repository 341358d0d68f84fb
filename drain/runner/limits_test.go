package runner_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/drain/runner"
)

// hangingNodes do not answer the first hangs reads before the caller gives up.
type hangingNodes struct {
	client.Reader
	hangs atomic.Int32
}

func (n *hangingNodes) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if n.hangs.Add(-1) < 0 {
		return n.Reader.Get(ctx, key, obj, opts...)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Second):
		return errors.New("no limit ended the read of the Node")
	}
}

func hanging(nodes client.Reader, hangs int32) *hangingNodes {
	n := &hangingNodes{Reader: nodes}
	n.hangs.Store(hangs)
	return n
}

// config has parts over live clients, and short times.
func (b *bench) config(t *testing.T, callTimeout time.Duration) runner.Config {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(b.store.RESTConfig())
	require.NoError(t, err)
	evictor := runner.NewRESTEvictor(clientset)
	pods := runner.NewPodSource(b.client)
	return runner.Config{
		Nodes: b.client, Pods: pods, Evictor: evictor, CallTimeout: callTimeout, Debounce: 5 * time.Millisecond, Settle: 20 * time.Millisecond,
	}
}

func TestDrain_ATimeoutEndsTheReadOfANode(t *testing.T) {
	b := newBench(t, 1, 0)
	opts := runner.DrainOptions{Timeout: 50 * time.Millisecond}
	_, err := runner.DrainBy(t.Context(), b.config(t, time.Hour), hanging(b.client, 1000), opts, "n0")
	require.ErrorIs(t, err, runner.ErrOutOfTime)
	require.ErrorContains(t, err, "drain node n0: ", "an error names its Node, read or not")
}

func TestDrain_WaitsForANodeNoLongerThanACallMayTakeAndTriesAgain(t *testing.T) {
	b := newBench(t, 1, 1)
	var trouble []error
	opts := runner.DrainOptions{Progress: func(r runner.NodeResult) {
		if r.Err != nil {
			trouble = append(trouble, r.Err)
		}
	}}
	results, err := runner.DrainBy(t.Context(), b.config(t, 500*time.Millisecond), hanging(b.client, 1), opts, "n0")
	require.NoError(t, err)
	require.True(t, results[0].Done)
	require.NotEmpty(t, trouble)
	require.ErrorContains(t, trouble[0], "drain node n0: read node: ")
}

func TestDrain_ATimeoutEndsTheWaitForAServerThatNeverAnswers(t *testing.T) {
	silence := make(chan struct{})
	time.AfterFunc(30*time.Second, sync.OnceFunc(func() { close(silence) }))
	var asked, ended atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		select {
		case <-silence:
		case <-r.Context().Done():
			ended.Add(1)
		}
	}))
	defer server.Close()
	for _, timeout := range []time.Duration{200 * time.Millisecond, 2 * time.Second, 20 * time.Second} { // long enough to ask once
		_, err := runner.Drain(t.Context(), &rest.Config{Host: server.URL}, runner.DrainOptions{Timeout: timeout}, "n0")
		require.ErrorIs(t, err, runner.ErrOutOfTime)
		if asked.Load() > 0 {
			break
		}
	}
	require.Positive(t, asked.Load())
	poll(t, "every request was ended by the drain", func() bool { return ended.Load() == asked.Load() })
}
