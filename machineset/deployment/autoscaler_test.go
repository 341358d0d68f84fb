package deployment_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// group is a deployment that cluster-autoscaler may scale.
func (w *world) group(replicas int64) *unstructured.Unstructured {
	w.t.Helper()
	return w.deployment(replicas, annotated(contract.MinSizeAnnotation, "1"),
		annotated("cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "9"))
}

func TestADeploymentIsWhatClusterAutoscalerReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.group(2)
	w.rolled(d, "blue", 2)
	rolling := func() bool { return rollingOut(w.setsNow()) }
	require.False(t, rolling())
	w.machines.Hold(true)
	w.Change(d, template("green"))
	w.until("the rollout to be seen", rolling)
	w.machines.Hold(false)
	w.rolled(d, "green", 2)
	w.until("the rollout to be over", func() bool { return !rolling() })
}

// rollingOut reports whether cluster-autoscaler takes the deployment of these sets for one that is rolling out: a set without the highest
// revision has or wants replicas. Source: its cloudprovider/clusterapi, IsRollingOut.
func rollingOut(sets []unstructured.Unstructured) bool {
	latest := int64(0)
	for i := range sets {
		revision, _ := strconv.ParseInt(sets[i].GetAnnotations()[contract.RevisionAnnotation], 10, 64)
		latest = max(latest, revision)
	}
	return slices.ContainsFunc(sets, func(set unstructured.Unstructured) bool {
		wanted := testenv.Number(&set, "spec", "replicas")
		existing := testenv.Number(&set, "status", "replicas")
		return set.GetAnnotations()[contract.RevisionAnnotation] != strconv.FormatInt(latest, 10) && (wanted > 0 || existing > 0)
	})
}

// A mark of an earlier plan is still there, and the API server refuses to remove it.
func TestAMarkThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.group(3)
	w.rolled(d, "blue", 3)
	refused := func(r fake.Request) bool {
		return r.UserAgent == "deployments" && r.Verb == "patch" && r.GVK.GroupKind() == w.kinds.Machine.GVK.GroupKind()
	}
	allow := w.Store.Inject(fake.Fault{Match: refused, Times: -1, Err: apierrors.NewForbidden(schema.GroupResource{}, "", nil)})
	machines := w.machinesNow()
	mark := func(m *unstructured.Unstructured, mark string) { w.Change(m, annotated(scale.DeleteAnnotation, mark)) }
	tries := func(least int) {
		w.Store.ResetRequests()
		w.until("remove the mark, in vain", func() bool {
			tried := 0
			for _, r := range w.Store.Requests() {
				if refused(r) {
					tried++
				}
			}
			return tried >= least
		})
	}
	mark(&machines[0], "MachineDeployment/"+string(d.GetUID()))
	tries(1) // the cache of the deployment shows the mark
	mark(&machines[1], "by an autoscaler")
	w.Change(d, fake.WithField(int64(2), "spec", "replicas"))
	tries(3)
	require.Len(t, w.machinesNow(), 3, "the set was not lowered")
	allow()
	w.rolled(d, "blue", 2)
	require.NotNil(t, w.Get(&machines[0]))
	require.Nil(t, w.Get(&machines[1]))
}

// An autoscaler for another API group than Cluster API's marks Machines by a key of that group.
func TestScaleDownsOfEverySystemEndWithTheMachinesThatItsAutoscalerMarks(t *testing.T) {
	t.Parallel()
	for name, s := range systems(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, s.kinds, fake.Options{Scheme: s.scheme}, fake.AllLoops())
			w.live().run()
			d := w.deploymentOf(s, 6)
			w.until("six Machines", func() bool { return len(w.machinesNow()) == 6 })
			machines := w.machinesNow()
			for i, replicas := range []int64{5, 4, 3} {
				w.Change(&machines[2*i], annotated(s.kinds.Machine.GVK.Group+"/delete-machine", "now"))
				w.Change(d, fake.WithField(replicas, "spec", "replicas"))
			}
			w.until("three Machines", func() bool { return len(w.machinesNow()) == 3 })
			for i := range machines {
				require.Equal(t, i%2 == 0, w.Get(&machines[i]) == nil, machines[i].GetName())
			}
		})
	}
}

// The sets of both templates have marked Machines, and the deployment is scaled twice before either is gone.
// marksOne marks a Machine of the set with an image, as cluster-autoscaler does. The rollout may delete the one that was chosen meanwhile.
func (w *world) marksOne(image string) *unstructured.Unstructured {
	w.t.Helper()
	var marked *unstructured.Unstructured
	w.Eventually("one of "+image+" to be marked", func() string {
		for _, m := range w.machinesNow() {
			if w.hashOf(image) == "" || m.GetLabels()["machine-template-hash"] != w.hashOf(image) || m.GetDeletionTimestamp() != nil {
				continue
			}
			changed := m.DeepCopy()
			annotated(scale.DeleteAnnotation, "now")(changed)
			if w.Client.Patch(w.t.Context(), changed, client.MergeFrom(&m)) == nil && changed.GetDeletionTimestamp() == nil {
				marked = changed
				return ""
			}
		}
		return fmt.Sprint(w.images())
	})
	return marked
}

func TestScaleDownsInTheMiddleOfARolloutEndWithTheMarkedMachinesOfBothSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.group(5)
	w.rolled(d, "blue", 5)
	w.machines.Hold(true) // in the middle it stays
	w.Change(d, fake.WithField(int64(2), "spec", "rollout", "strategy", "rollingUpdate", "maxSurge"), template("green"))
	var marked []*unstructured.Unstructured
	for i, image := range []string{"green", "blue"} {
		marked = append(marked, w.marksOne(image))
		w.Change(d, fake.WithField(int64(4-i), "spec", "replicas"))
	}
	w.machines.Hold(false)
	w.rolled(d, "green", 3)
	for i := range marked {
		require.Nil(t, w.Get(marked[i]))
	}
	for _, m := range w.machinesNow() {
		require.NotContains(t, m.GetAnnotations(), scale.DeleteAnnotation)
	}
}
