package machinepool_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machinepool"
)

// A Cluster that was not read may be paused, and may have no event that tells when it is.
func TestAPoolWaitsForAClusterThatIsUnreadAndLooksAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var read atomic.Bool
	w := newWorld(t, worldOptions{provider: &fake.PoolInfrastructure{}, ports: func(_ ctrl.Manager, p *machinepool.Ports) {
		p.ClusterOf = func(context.Context, types.NamespacedName) (external.ClusterView, error) {
			asked.Add(1)
			if !read.Load() {
				return external.ClusterView{Presence: external.Unread, RetryAfter: 20 * time.Millisecond}, nil
			}
			return external.ClusterView{Presence: external.NotReferenced}, nil
		}
		p.ClusterEvents = func(external.ClusterMapper) source.Source { return source.Func(noEvents) }
	}})
	pool := w.poolWith(1)
	w.eventually("look again", func() string {
		if n := asked.Load(); n < 5 {
			return fmt.Sprintf("it has looked %d times", n)
		}
		return ""
	})
	require.Empty(t, w.get(pool).GetFinalizers())
	require.Empty(t, w.writes())
	read.Store(true)
	w.reports(pool, "Running", 1, 1)
}
