package machinepool

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/machinist-dev/machinist/noderef/cluster"
)

// letGo is a Volumes that notes which Nodes are let go.
type letGo struct {
	cluster.Volumes

	released []string
}

func (l *letGo) Release(node string) { l.released = append(l.released, node) }

func TestVolumesThatAreNotWaitedForAnyMoreAreLetGo(t *testing.T) {
	p, _ := acting(t, &api{})
	volumes := &letGo{}
	p.mem().workload.Volumes = volumes
	for _, name := range []string{"a", "b"} {
		p.mem().draining[name] = actingNow
	}
	p.mem().release(sets.Set[string]{"b": {}})
	require.Equal(t, []string{"a"}, volumes.released)
	p.env.memory.Forget(testPool)
	require.Equal(t, []string{"a", "b"}, volumes.released)
	p.mem().workload.Volumes = volumes
	require.Empty(t, p.mem().draining, "the wait begins anew")
	p.mem().draining["a"] = actingNow
	p.env.memory.Of(testPool, "another of its name")
	require.Equal(t, []string{"a", "b", "a"}, volumes.released)
}
