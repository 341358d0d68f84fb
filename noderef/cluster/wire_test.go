package cluster

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// relay forwards TCP connections until it is frozen; then it accepts them and drops all data, like a broken network.
type relay struct {
	net.Listener
	target string

	mu     sync.Mutex
	frozen chan struct{} // closed when frozen
	taken  int
	conns  []net.Conn
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	require.NoError(t, err)
	r := &relay{Listener: listener, target: target, frozen: make(chan struct{})}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.taken++
			r.conns = append(r.conns, conn)
			r.mu.Unlock()
			running.Go(func() { r.forward(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.mu.Lock()
		for _, conn := range r.conns {
			_ = conn.Close()
		}
		r.mu.Unlock()
		running.Wait()
	})
	return r
}

func (r *relay) forward(conn net.Conn) {
	server, err := net.Dial("tcp", r.target) //nolint:noctx // loopback
	if err != nil {
		_ = conn.Close()
		return
	}
	r.mu.Lock()
	r.conns = append(r.conns, server)
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { r.copy(server, conn) })
	r.copy(conn, server)
	both.Wait()
}

func (r *relay) copy(to io.WriteCloser, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-r.frozen: // drop everything, and never close the connection
			if err != nil {
				return
			}
			continue
		default:
		}
		if n > 0 {
			_, _ = to.Write(buf[:n])
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

func (r *relay) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

func TestAConnectionThatDropsPacketsIsDetectedByPings(t *testing.T) {
	s := newAPIServer(t)
	r := newRelay(t, s.addr)
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1") // pings use the real clock
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	w := newWorld(t, Options[*nodes]{})
	config := s.config("t1")
	config.Host = "https://" + r.Addr().String()
	w.set(keyA, Target{Config: config, Version: "1"}, nil)
	w.connected(keyA)
	w.eventually("the watch runs", func() bool { return s.pending("WATCH") == 1 })
	before := r.count()

	close(r.frozen)
	w.eventually("the client dials again, although the clock stands still", func() bool { return r.count() > before })
	w.stepUntil(time.Second, "lost", func() bool { return w.get(keyA).Reason == ReasonUnreachable })
}

func TestABrokenTCPConnectionIsReplaced(t *testing.T) {
	s := newAPIServer(t)
	s.put("n1")
	broken := newRelay(t, s.addr)
	var mu sync.Mutex
	through := broken.Addr().String()
	config := s.config("t1")
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		return (&net.Dialer{}).DialContext(ctx, network, through)
	}
	w := newWorld(t, Options[*nodes]{})
	w.set(keyA, Target{Config: config, Version: "1"}, nil)
	w.connected(keyA)

	t.Log("the load balancer drops the connection, and sends new ones elsewhere")
	mu.Lock()
	through = s.addr
	mu.Unlock()
	close(broken.frozen)
	w.clock.Step(silence)
	probes := s.count("GET /readyz")
	w.stepUntil(time.Second, "the server answers on a new connection", func() bool { return s.count("GET /readyz") > probes })
	w.stepUntil(time.Second, "requests pass", func() bool {
		view := w.get(keyA)
		return view.Reason == "" && patchNode(t, view.Cluster.GetClient(), "n1") == nil
	})
}

func TestCachedReadsNeverWait(t *testing.T) {
	w, s := newWorld(t, Options[*nodes]{}), newAPIServer(t)
	s.put("n1")
	s.refuse("WATCH /api/v1/nodes", 403)
	s.refuse("GET /api/v1/nodes", 403)
	w.reach(keyA, s)
	w.eventually("connected", func() bool { return w.get(keyA).Reason == "" })
	view := w.get(keyA)
	require.False(t, view.Synced)
	c := view.Cluster.GetClient()
	require.ErrorIs(t, c.Get(t.Context(), types.NamespacedName{Name: "n1"}, &corev1.Node{}), ErrNotSynced)
	require.ErrorIs(t, c.List(t.Context(), &corev1.NodeList{}), ErrNotSynced)
	w.eventually("the problem is reported", func() bool { return w.get(keyA).Problem != nil })
	require.ErrorContains(t, w.get(keyA).Problem, "failed to list")

	s.refuse("WATCH /api/v1/nodes", 0)
	s.refuse("GET /api/v1/nodes", 0)
	w.connected(keyA)
	require.NoError(t, w.get(keyA).Problem)
	require.NoError(t, c.Get(t.Context(), types.NamespacedName{Name: "n1"}, &corev1.Node{}))

	t.Log("a read does not start a watch of a kind")
	missing := &cache.ErrResourceNotCached{}
	require.ErrorAs(t, c.Get(t.Context(), types.NamespacedName{Namespace: "x", Name: "p"}, &corev1.Pod{}), &missing)
	require.NoError(t, view.Cluster.GetAPIReader().Get(t.Context(), types.NamespacedName{Name: "n1"}, &corev1.Node{}))
}

func TestAListThatKeepsBringingDataIsNotLimited(t *testing.T) {
	s := newAPIServer(t)
	s.put("n1")
	s.slow = make(chan struct{})
	w := newWorld(t, Options[*nodes]{patience: time.Hour})
	w.reach(keyA, s)
	w.eventually("connected", func() bool { return w.get(keyA).Reason == "" })
	w.eventually("the list is under way", func() bool { return s.pending("GET /api/v1/nodes") == 1 })
	for range 4 { // all of them take longer than silence
		w.clock.Step(170 * time.Second) // twice that is less than silence, which restarts shortly after the piece is seen
		require.False(t, w.get(keyA).Synced)
		s.slow <- struct{}{}
		w.eventually("a piece is read", func() bool { return w.get(keyA).LastSeen.Equal(w.clock.Now()) })
	}
	w.connected(keyA)
	require.Equal(t, 1, s.count("GET /api/v1/nodes"), "it was not started again")
}

func TestAListThatBringsNoDataIsStartedAgain(t *testing.T) {
	s := newAPIServer(t)
	s.put("n1")
	s.slow = make(chan struct{})
	w := newWorld(t, Options[*nodes]{})
	w.reach(keyA, s)
	w.eventually("connected", func() bool { return w.get(keyA).Reason == "" })
	w.eventually("the list is under way", func() bool { return s.pending("GET /api/v1/nodes") == 1 })
	w.stepUntil(10*time.Second, "it is asked for again", func() bool { return s.count("GET /api/v1/nodes") > 1 })
	close(s.slow)
	w.reconnected(keyA)
}

// The informers of a drain runner are such caches: it looks for this method.
var _ interface{ CacheHTTPClient() *http.Client } = (*Connection)(nil)
