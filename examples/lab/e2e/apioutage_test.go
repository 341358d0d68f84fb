//go:build e2e

package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/machinist-dev/machinist/fake"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// The API server is away for longer than any limit of the check: a Node may be silent for notReadyFor, and a Machine without one for
// startupFor.
const (
	apiOutage   = 2 * time.Minute
	notReadyFor = 5 * time.Second
	startupFor  = time.Minute
)

// steady are the Machines that a set has before the outage, and starting those that have no Node when it begins.
const (
	steady   = 6
	starting = 2
)

// outageWorld is a set with a health check, run by a manager with its safety on.
type outageWorld struct {
	*world

	user       string
	set, check *unstructured.Unstructured
	// boots: a new machine takes longer than the outage to become a Node.
	boots atomic.Bool
}

func newOutageWorld(t *testing.T) *outageWorld {
	t.Helper()
	w := &outageWorld{world: newSetWorldOn(t, mortalPlane(t)), user: managerAgent + "-outage"}
	w.installHealthChecks()
	w.startProviders(worldOptions{infrastructure: fake.Infrastructure{NodeDelay: func(*unstructured.Unstructured) time.Duration {
		if w.boots.Load() {
			return apiOutage + startupFor/2
		}
		return 0
	}}})
	m := w.managerWith(managerBinary(t), w.user, "--machinesets", "--machinehealthchecks",
		"--machine-safety-apiserver-statuscheck-period=2s", "--machine-safety-apiserver-statuscheck-timeout=1s")
	t.Cleanup(func() {
		m.stop()
		if t.Failed() {
			fmt.Fprintln(os.Stderr, m.log.String())
		}
	})
	w.set = w.apply(setDocument("outage", steady))[2]
	w.check = fake.MachineHealthCheck("workers", map[string]string{"pool": "outage"}, notReadyFor,
		fake.WithField(int64(startupFor/time.Second), "spec", "checks", "nodeStartupTimeoutSeconds"))
	require.NoError(t, w.client.Create(t.Context(), w.check))
	w.setHas(w.set, steady)
	w.counts(w.check, steady, steady)
	return w
}

// machines are those of the set by UID.
func (w *outageWorld) machines() map[types.UID]*unstructured.Unstructured {
	w.t.Helper()
	all := map[types.UID]*unstructured.Unstructured{}
	for _, m := range w.listed(fake.MachineGVK()) {
		all[m.GetUID()] = &m
	}
	return all
}

// provisioned are the names of the Machines that have an instance.
func (w *outageWorld) provisioned() (names []string) {
	w.t.Helper()
	for _, m := range w.machines() {
		if id, _, _ := unstructured.NestedString(m.Object, "spec", "providerID"); id != "" {
			names = append(names, m.GetName())
		}
	}
	return names
}

// isAway has the API server not answer for two minutes, and the kubelets neither.
func (w *outageWorld) isAway() {
	w.t.Helper()
	away := []cluster.Component{cluster.Kwok, cluster.APIServer}
	for _, c := range away {
		require.NoError(w.t, w.plane.Kill(c))
	}
	select {
	case <-time.After(apiOutage):
	case <-w.t.Context().Done():
	}
	for _, c := range slices.Backward(away) {
		require.NoError(w.t, w.plane.Restart(w.t.Context(), c))
	}
}

// The API server is killed for two minutes. A Node has died just before, and two Machines have none yet. At its return no Node has reported
// for two minutes, and what the manager has read is as old. Only the Machine whose Node does not come back is replaced.
func TestE2EAnAPIServerThatIsAwayForTwoMinutesHasOnlyTheDeadMachineReplaced(t *testing.T) {
	t.Parallel()
	w := newOutageWorld(t)
	w.boots.Store(true)
	w.scaleTo(w.set, steady+starting)
	w.eventually("Machines that start, with their instances", func() string {
		return differs(len(w.provisioned()), steady+starting)
	})
	before := w.machines()
	var dead *unstructured.Unstructured
	for _, m := range before {
		if name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name"); name != "" {
			w.die(w.node(name))
			dead = m
			break
		}
	}
	start := time.Now()
	w.isAway()
	w.boots.Store(false)
	took := func(what string) { t.Logf("%s after %s", what, time.Since(start).Round(time.Second)) }
	took("the API server and the kubelets answer")
	w.gone(dead)
	took("the dead Machine is gone")
	w.setHas(w.set, steady+starting)
	w.counts(w.check, steady+starting, steady+starting)
	took("everything is healthy")

	after := w.machines()
	for uid, m := range before {
		if uid != dead.GetUID() {
			require.NotNil(t, after[uid], "%s was replaced", m.GetName())
		}
	}
	events, err := w.plane.Audit().Events()
	require.NoError(t, err)
	events = events.Where(func(e cluster.AuditEvent) bool { return e.User == w.user })
	t.Logf("the manager in all: %s", events)
	machines := events.To("cluster.x-k8s.io", "machines").Where(func(e cluster.AuditEvent) bool { return e.Code < 300 && e.Subresource == "" })
	count := func(verb string) int {
		return len(machines.Where(func(e cluster.AuditEvent) bool { return e.Verb == verb }))
	}
	require.Equal(t, steady+starting+1, count("create"), "one for the dead Machine")
	require.Equal(t, 1, count("delete"), "only the dead Machine")
}

// differs says what there is in place of what is wanted, and nothing when it is the same.
func differs(got, want int) string {
	if got != want {
		return fmt.Sprintf("there are %d, not %d", got, want)
	}
	return ""
}
