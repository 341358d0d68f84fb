//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
	workloads "github.com/machinist-dev/machinist/noderef/cluster"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

const workloadAgent = "machinist-workload-test"

// far is a workload cluster beside the shared control plane, which is where its kubeconfig Secret is.
type far struct {
	*world
	workload *cluster.ControlPlane
	nodes    client.Client
	clusters *workloads.Clusters[*workloads.NodeIndex]
	key      types.NamespacedName
	secret   *corev1.Secret
}

func newFar(t *testing.T) *far {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	plane := shared(t)
	live, err := client.NewWithWatch(plane.Config(), client.Options{})
	require.NoError(t, err)
	f := &far{world: &world{t: t, plane: plane, client: live}, key: clientKey("default", "far")}
	f.workload, err = cluster.Start(t.Context(), cluster.Options{
		Log: os.Stderr, Without: []cluster.Component{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.workload.Stop()) })
	f.nodes, err = client.New(f.workload.Config(), client.Options{})
	require.NoError(t, err)
	f.startClusters()
	return f
}

// startClusters runs a manager of the shared control plane with the connections to workload clusters, and nothing else.
func (f *far) startClusters() {
	f.t.Helper()
	mgr, err := ctrl.NewManager(f.plane.Config(), ctrl.Options{Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"}})
	require.NoError(f.t, err)
	secrets, err := workloads.SecretsFromManager(mgr)
	require.NoError(f.t, err)
	f.clusters, err = workloads.New(workloads.Options[*workloads.NodeIndex]{
		Access: secrets, UserAgent: workloadAgent,
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: workloads.TrimNode}}},
		Setup: func(ctx context.Context, c *workloads.Connection) (*workloads.NodeIndex, error) {
			return workloads.NewNodeIndex(ctx, c.GetCache(), noderef.Rules{})
		},
	})
	require.NoError(f.t, err)
	require.NoError(f.t, mgr.Add(f.clusters))
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		require.NoError(f.t, <-done)
	})
}

// kubeconfig returns one for a user with all rights.
func (f *far) kubeconfig(user string) map[string][]byte {
	f.t.Helper()
	config, err := f.workload.ConfigFor(user, "system:masters")
	require.NoError(f.t, err)
	return map[string][]byte{workloads.KubeconfigKey: f.file(config)}
}

func (f *far) file(config *rest.Config) []byte {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), "kubeconfig")
	require.NoError(f.t, cluster.WriteKubeconfig(path, config))
	content, err := os.ReadFile(path)
	require.NoError(f.t, err)
	return content
}

func (f *far) connected(nodes int) workloads.View[*workloads.NodeIndex] {
	f.t.Helper()
	var view workloads.View[*workloads.NodeIndex]
	f.eventually(fmt.Sprintf("%d Nodes", nodes), func() string {
		var err error
		if view, err = f.clusters.Get(f.key); err != nil {
			return err.Error()
		}
		var have corev1.NodeList
		if view.Synced {
			err = view.Cluster.GetCache().List(f.t.Context(), &have)
		}
		if err != nil || !view.Synced || len(have.Items) != nodes {
			return fmt.Sprintf("%d Nodes, problem: %v %v", len(have.Items), view.Problem, err)
		}
		return ""
	})
	return view
}

func (f *far) createNodes(from, to int) {
	f.t.Helper()
	for i := from; i < to; i++ {
		require.NoError(f.t, f.nodes.Create(f.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("far-%d", i)}}))
	}
}

// requests returns what a user has sent to the workload cluster since a mark.
func (f *far) requests(mark cluster.AuditMark, user string) cluster.AuditEvents {
	f.t.Helper()
	all, err := f.workload.Audit().Since(mark)
	require.NoError(f.t, err)
	return all.From(workloadAgent).Where(func(e cluster.AuditEvent) bool { return e.User == user })
}

func (f *far) mark() cluster.AuditMark {
	f.t.Helper()
	mark, err := f.workload.Audit().Mark()
	require.NoError(f.t, err)
	return mark
}

func TestAWorkloadClusterThatDiesComesBackOnARealControlPlane(t *testing.T) {
	f := newFar(t)
	f.eventually("no kubeconfig", func() string {
		if _, err := f.clusters.Get(f.key); err == nil || !strings.Contains(err.Error(), "Secret default/far-kubeconfig does not exist") {
			return fmt.Sprint(err)
		}
		return ""
	})
	f.secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "far-kubeconfig", Labels: map[string]string{contract.ClusterNameLabel: "far"}},
		Type:       "cluster.x-k8s.io/secret", Data: f.kubeconfig("first"),
	}
	require.NoError(t, f.client.Create(t.Context(), f.secret))
	t.Cleanup(func() { _ = f.client.Delete(context.WithoutCancel(t.Context()), f.secret) })
	f.createNodes(0, 20)
	view := f.connected(20)

	f.dies(view)
	f.hangs(f.connected(21))
	f.rotates(f.connected(21))
	f.goes()
}

// dies kills the API server and starts it again.
func (f *far) dies(view workloads.View[*workloads.NodeIndex]) {
	mark := f.mark()
	require.NoError(f.t, f.workload.Kill(cluster.APIServer))
	began := time.Now()
	f.eventually("the loss is noticed", func() string {
		if _, err := f.clusters.Get(f.key); err == nil {
			return "still connected"
		}
		return ""
	})
	_, lost := f.clusters.Get(f.key)
	f.t.Logf("noticed after %s: %v", time.Since(began).Round(time.Millisecond), lost)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "far-0"}}
	err := view.Cluster.GetClient().Patch(f.t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{}`)))
	require.ErrorIs(f.t, err, workloads.ErrNotConnected)

	require.NoError(f.t, f.workload.Restart(f.t.Context(), cluster.APIServer))
	f.createNodes(20, 21)
	ready := time.Now()
	f.connected(21)
	f.t.Logf("connected again, with the Node that joined, %s after it was created; down for %s", time.Since(ready).Round(time.Millisecond),
		ready.Sub(began).Round(time.Millisecond))
	made := f.requests(mark, "first")
	f.t.Logf("of the whole outage: %s", made)
	require.LessOrEqual(f.t, len(made), 10, "probes, discovery and one informer")
}

// hangs stops the API server's process: its kernel accepts connections without an answer.
func (f *far) hangs(view workloads.View[*workloads.NodeIndex]) {
	require.NoError(f.t, f.workload.Freeze(cluster.APIServer))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "far-0"}}
	patch := func() error {
		return view.Cluster.GetClient().Patch(f.t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{}`)))
	}
	began := time.Now()
	f.eventually("the process to stop", func() string { // the signal says so a moment before it does
		if began = time.Now(); patch() == nil {
			return "it still answers"
		}
		return ""
	})
	f.t.Logf("a request was given up after %s", time.Since(began).Round(10*time.Millisecond))
	f.eventually("the loss is noticed", func() string {
		if _, err := f.clusters.Get(f.key); err == nil {
			return "still connected"
		}
		return ""
	})
	_, lost := f.clusters.Get(f.key)
	f.t.Log(lost)
	require.ErrorIs(f.t, patch(), workloads.ErrNotConnected)
	require.NoError(f.t, f.workload.Thaw(cluster.APIServer))
	view = f.connected(21)
	require.NoError(f.t, patch())
}

// rotates puts other credentials in place: what is cached stays, and the next request has them.
func (f *far) rotates(before workloads.View[*workloads.NodeIndex]) {
	base := f.secret.DeepCopy()
	f.secret.Data = f.kubeconfig("second")
	require.NoError(f.t, f.client.Patch(f.t.Context(), f.secret, client.MergeFrom(base)))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "far-0"}}
	var mark cluster.AuditMark
	f.eventually("the new credentials are used", func() string {
		view, err := f.clusters.Get(f.key)
		if err != nil {
			f.t.Errorf("a rotation is no disconnection: %v", err)
			return ""
		}
		mark = f.mark()
		require.NoError(f.t, view.Cluster.GetClient().Patch(f.t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{}`))))
		if len(f.requests(mark, "second")) == 0 {
			return "the old ones are"
		}
		return ""
	})
	require.Same(f.t, before.Value, f.connected(21).Value)
	made := f.requests(mark, "second")
	require.Empty(f.t, made.Where(func(e cluster.AuditEvent) bool { return e.Verb == "list" || e.Verb == "watch" }), "nothing is read again")
	require.Empty(f.t, f.requests(mark, "first"))
}

// goes deletes the Secret.
func (f *far) goes() {
	require.NoError(f.t, f.client.Delete(f.t.Context(), f.secret))
	f.eventually("the connection is closed", func() string {
		view, err := f.clusters.Get(f.key)
		if view.Reason != workloads.ReasonNoKubeconfig {
			return fmt.Sprint(err)
		}
		return ""
	})
	mark := f.mark()
	f.createNodes(21, 22)
	require.Empty(f.t, f.requests(mark, "second"))
}
