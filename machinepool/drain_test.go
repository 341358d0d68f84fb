package machinepool

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/drain/runner"
)

// keptVolumes are volumes that stay attached to some Nodes.
type keptVolumes struct{ nodes sets.Set[string] }

func (v *keptVolumes) StepVolumes(_ context.Context, request runner.Request, _ time.Duration) (runner.VolumesResult, error) {
	return runner.VolumesResult{Done: !v.nodes.Has(request.Node.Name), Message: "* a volume"}, nil
}

func (*keptVolumes) Release(string) {}

func TestNodesThatWaitForVolumesAreLookedAtBesideThoseThatHavePods(t *testing.T) {
	p, drainer, _ := draining(t, &api{}, 0)
	volumes := &keptVolumes{nodes: sets.New("a", "b")}
	p.workload.Drainer, p.workload.Volumes = drainer, volumes
	drainer.result = runner.Result{Done: true}
	nodes := []*corev1.Node{begunNode("a"), begunNode("b"), begunNode("c")}
	look := func(left int, nodes ...*corev1.Node) {
		t.Helper()
		drainer.asked, p.Now = nil, p.Now.Add(time.Second)
		got, err := p.drain(t.Context(), nodes)
		require.NoError(t, err)
		require.Equal(t, left, got)
		require.Equal(t, names(nodes), drainer.asked)
	}
	look(2, nodes...)
	began := p.Now
	look(2, nodes[:2]...)
	require.Equal(t, []string{"c"}, drainer.released)
	require.Equal(t, map[string]time.Time{"a": began, "b": began}, p.mem().draining, "their limits count on")
	volumes.nodes.Delete("b")
	look(1, nodes[:2]...)
	require.Equal(t, []string{"c", "b"}, drainer.released)
}
