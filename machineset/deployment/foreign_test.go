package deployment_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// system is a system whose deployments are rolled out: what a Machine of it is made of, and what is changed in that.
type system struct {
	kinds  contract.Kinds
	spec   map[string]any
	change []string
	// scheme knows the Go types of the kinds; nil means that they are unstructured.
	scheme *runtime.Scheme
}

func systems(t *testing.T) map[string]system {
	t.Helper()
	v1beta1, err := contract.ClusterAPI(contract.V1Beta1)
	require.NoError(t, err)
	typed, scheme := testenv.Fleets()
	return map[string]system{
		"Go types": {kinds: typed, spec: map[string]any{"size": "small"}, change: []string{"size"}, scheme: scheme},
		"Cluster API v1beta1": {v1beta1, map[string]any{
			"clusterName": "demo", "version": "v1.36.3", "bootstrap": map[string]any{"dataSecretName": "data"},
		}, []string{"version"}, nil},
		"Kubermatic": {contract.Kubermatic(), map[string]any{
			"providerSpec": map[string]any{"value": map[string]any{"cloudProvider": "aws"}}, "versions": map[string]any{"kubelet": "1.36.3"},
		}, []string{"versions", "kubelet"}, nil},
		"Gardener": {contract.Gardener(), map[string]any{
			"class": map[string]any{"kind": "MachineClass", "name": "small"},
		}, []string{"class", "name"}, nil},
	}
}

func TestDeploymentsOfEverySystemRollOutGoBackAndGo(t *testing.T) {
	t.Parallel()
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, s.kinds, fake.Options{Scheme: s.scheme}, fake.AllLoops())
			w.live().run()
			d := w.deploymentOf(s, 2)
			before, _, _ := unstructured.NestedString(s.spec, s.change...)
			w.made(s, before)
			w.Change(d, fake.WithField("other", append([]string{"spec", "template", "spec"}, s.change...)...))
			w.made(s, "other")
			commands := deployment.Commands{Client: w.Client, Kinds: s.kinds}
			_, err := commands.Undo(t.Context(), client.ObjectKeyFromObject(d), 0)
			require.NoError(t, err)
			w.made(s, before)
			require.Len(t, w.setsNow(), 2)
			require.NoError(t, w.Client.Delete(t.Context(), d))
			w.until("all to go", func() bool { return w.Get(d) == nil && len(w.setsNow()) == 0 && len(w.machinesNow()) == 0 })
		})
	}
}

// deploymentOf creates a deployment of a system.
func (w *world) deploymentOf(s system, replicas int64) *unstructured.Unstructured {
	w.t.Helper()
	d := testenv.Object(s.kinds.Deployment.GVK, "workers")
	labels := map[string]any{"pool": "workers"}
	d.Object["spec"] = map[string]any{
		"replicas": replicas, "selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": s.spec},
	}
	if _, has := s.spec["clusterName"]; has {
		require.NoError(w.t, unstructured.SetNestedField(d.Object, "demo", "spec", "clusterName"))
	}
	w.Create(d)
	return d
}

// made waits until there are two Machines, both made of what was changed last.
func (w *world) made(s system, want string) {
	w.t.Helper()
	w.until("two Machines of "+want, func() bool {
		got := map[string]int{}
		for _, m := range w.machinesNow() {
			got[testenv.Text(&m, append([]string{"spec"}, s.change...)...)]++
		}
		return len(got) == 1 && got[want] == 2
	})
}

// counting are the systems whose deployments have the numbers in their status that say how far a rollout is.
func counting(t *testing.T) map[string]system {
	t.Helper()
	all := systems(t)
	maps.DeleteFunc(all, func(_ string, s system) bool { return s.scheme != nil })
	return all
}

// A restart is another annotation of the template in two of the systems, which have no field for it.
func TestARestartThatTheControllerHasYetToSeeIsNotDone(t *testing.T) {
	t.Parallel()
	for name, s := range counting(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, s.kinds)
			stop := w.live().run()
			d := w.deploymentOf(s, 2)
			key := client.ObjectKeyFromObject(d)
			w.done(deployment.Commands{Client: w.Client, Kinds: s.kinds}, key)
			stop()
			// Sets are as old as the second says in which they were created: it has to be over.
			clock := clocktesting.NewFakePassiveClock(time.Now().Add(2 * time.Second))
			commands := deployment.Commands{Client: w.Client, Kinds: s.kinds, Clock: clock}
			old := w.uids()
			if err := commands.Restart(t.Context(), key); name == "Cluster API v1beta1" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "set the annotation kubectl.kubernetes.io/restartedAt in the metadata of spec.template")
				w.Change(d, fake.WithField("now", "spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"))
			}
			progress, err := commands.Status(t.Context(), key)
			require.NoError(t, err)
			require.False(t, progress.Done, progress)
			require.NoError(t, commands.Pause(t.Context(), key))
			progress, err = commands.Status(t.Context(), key)
			require.NoError(t, err)
			require.False(t, progress.Done, progress)
			require.NoError(t, commands.Resume(t.Context(), key))

			w.run()
			w.done(commands, key)
			for _, uid := range w.uids() {
				require.NotContains(t, old, uid, "a Machine of before is left when the rollout is said to be done")
			}
		})
	}
}

// done waits until Commands say that a rollout is done.
func (w *world) done(c deployment.Commands, key types.NamespacedName) {
	w.t.Helper()
	w.until("the rollout to be done", func() bool {
		progress, err := c.Status(w.t.Context(), key)
		require.NoError(w.t, err)
		return progress.Done
	})
}

func TestOldSetsWithoutALimitAreKeptAsTheirSystemKeepsThem(t *testing.T) {
	t.Parallel()
	for name, s := range counting(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, s.kinds)
			w.live().run()
			d := w.deploymentOf(s, 1)
			commands := deployment.Commands{Client: w.Client, Kinds: s.kinds}
			for _, made := range []string{"second", "third", "fourth"} {
				w.done(commands, client.ObjectKeyFromObject(d))
				w.Change(d, fake.WithField(made, append([]string{"spec", "template", "spec"}, s.change...)...))
			}
			want := map[bool]int{true: 4, false: 2}[name == "Gardener"]
			w.until(fmt.Sprintf("have %d sets", want), func() bool {
				progress, err := commands.Status(t.Context(), client.ObjectKeyFromObject(d))
				require.NoError(t, err)
				return progress.Done && len(w.describeSets()) == want
			})
			history, err := commands.History(t.Context(), client.ObjectKeyFromObject(d))
			require.NoError(t, err)
			require.True(t, slices.IsSortedFunc(history, func(a, b deployment.Revision) int { return int(a.Number - b.Number) }))
			require.Len(t, history, want)
		})
	}
}
