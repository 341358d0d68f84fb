package deployment_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

func version(v string) fake.Option { return fake.WithField(v, "spec", "template", "spec", "version") }

func annotated(key, value string) fake.Option {
	return fake.WithAnnotations(map[string]string{key: value})
}

// inPlace is a deployment whose Machines are updated in place, one at a time.
func (w *world) inPlace(replicas int64, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	return w.deployment(replicas, append([]fake.Option{
		annotated(contract.RolloutTypeAnnotation, contract.RolloutInPlace),
		fake.WithField(int64(0), "spec", "rollout", "strategy", "rollingUpdate", "maxSurge"),
		fake.WithField(int64(1), "spec", "rollout", "strategy", "rollingUpdate", "maxUnavailable"),
	}, options...)...)
}

// updateSelected is an update hook: it takes the selected Machines to the version of their set, and says how that went. It returns how
// many were selected.
func (w *world) updateSelected(outcome func(m *unstructured.Unstructured, to string) string) int {
	w.t.Helper()
	selected := 0
	for _, m := range w.machinesNow() {
		is := contract.ReadInPlace(m.GetAnnotations())
		if is.State != contract.InPlaceSelected {
			continue
		}
		selected++
		set := w.Get(testenv.Object(w.kinds.Set.GVK, is.Set))
		require.NotNil(w.t, set, "the set that a Machine is updated to")
		to := testenv.Text(set, "spec", "template", "spec", "version")
		said := outcome(&m, to)
		if said == "" {
			continue
		}
		result := contract.InPlace{State: said, Set: is.Set}.String()
		w.Change(&m, annotated(contract.InPlaceAnnotation, result), func(u *unstructured.Unstructured) {
			if said == contract.InPlaceUpdated {
				fake.WithField(to, "spec", "version")(u)
			}
		})
	}
	return selected
}

func succeeds(*unstructured.Unstructured, string) string { return contract.InPlaceUpdated }

// updated runs the hook until all Machines have a version and nothing is left to do. It returns how many were selected at most.
func (w *world) updated(d *unstructured.Unstructured, v string, hook func(*unstructured.Unstructured, string) string) (most int) {
	w.t.Helper()
	n := testenv.Number(d, "spec", "replicas")
	w.until(fmt.Sprintf("%d Machines of %s", n, v), func() bool {
		most = max(most, w.updateSelected(hook))
		var got []string
		for _, m := range w.machinesNow() {
			got = append(got, testenv.Text(&m, "spec", "version")+m.GetAnnotations()[contract.InPlaceAnnotation])
		}
		want := slices.Repeat([]string{v}, int(n))
		rolling := w.condition(d, deployment.ConditionRollingOut)
		return slices.Equal(got, want) && rolling.Status == "False"
	})
	return most
}

func (w *world) uids() []types.UID {
	w.t.Helper()
	var all []types.UID
	for _, m := range w.machinesNow() {
		all = append(all, m.GetUID())
	}
	slices.Sort(all)
	return all
}

func TestMachinesAreUpdatedInPlaceOneAtATimeAndStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.inPlace(4)
	w.rolled(d, "blue", 4)
	machines := w.uids()
	stop := w.watch()
	w.Change(d, version("v1.37.0"))
	require.Equal(t, 1, w.updated(d, "v1.37.0", succeeds), "maxUnavailable is 1")
	stop()
	require.Equal(t, machines, w.uids())
	require.Equal(t, 4, w.most)
	sets := w.setsNow()
	current := sets[slices.IndexFunc(sets, func(s unstructured.Unstructured) bool {
		return s.GetAnnotations()[contract.RevisionAnnotation] == "2"
	})]
	for _, m := range w.machinesNow() {
		require.Len(t, m.GetOwnerReferences(), 1)
		require.Equal(t, current.GetName(), m.GetOwnerReferences()[0].Name)
		require.Equal(t, current.GetLabels()[contract.TemplateHashLabel], m.GetLabels()[contract.TemplateHashLabel])
		require.Equal(t, current.GetName(), m.GetLabels()[contract.SetNameLabel])
	}
}

func TestAnUpdateInPlaceThatIsTurnedBackOrChangedOnItsWayKeepsTheMachines(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"turned back": "v1.36.3", "changed": "v1.38.0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).live()
			w.run()
			d := w.inPlace(4)
			w.rolled(d, "blue", 4)
			machines := w.uids()
			w.Change(d, version("v1.37.0"))
			done := 0
			w.Eventually("two Machines to be updated, and a third one to be on its way", func() string {
				n := w.updateSelected(func(*unstructured.Unstructured, string) string {
					if done < 2 {
						done++
						return contract.InPlaceUpdated
					}
					return ""
				})
				if done < 2 || n == 0 {
					return fmt.Sprint(done, w.describeSets())
				}
				return ""
			})
			w.Change(d, version(last))
			w.updated(d, last, succeeds)
			require.Equal(t, machines, w.uids())
		})
	}
}

// The template is turned back while the cache has yet to show that a Machine has moved to the other set.
func TestASetThatAMachineHasLeftUnseenDoesNotCreateAnotherOne(t *testing.T) {
	t.Parallel()
	var lag atomic.Int64
	kinds := clusterAPI()
	w := newWorldWith(t, kinds, fake.Options{CacheLagFunc: func(kind schema.GroupKind, _ types.NamespacedName) time.Duration {
		return map[bool]time.Duration{true: time.Duration(lag.Load())}[kind.Kind == kinds.Machine.GVK.Kind]
	}}, fake.AllLoops()).live()
	w.run()
	d := w.inPlace(3)
	w.rolled(d, "blue", 3)
	machines, first := w.uids(), w.setsNow()[0].GetName()
	w.Change(d, version("v1.37.0"))
	w.until("a Machine to be selected", func() bool {
		return w.updateSelected(func(*unstructured.Unstructured, string) string { return "" }) != 0
	})
	lag.Store(int64(500 * time.Millisecond))
	require.Equal(t, 1, w.updateSelected(succeeds))
	w.Eventually("it to move", func() string { // it says so itself until its new set has received it
		moved := slices.ContainsFunc(w.machinesNow(), func(m unstructured.Unstructured) bool {
			return m.GetLabels()[contract.SetNameLabel] != first
		})
		return map[bool]string{false: fmt.Sprint(w.describeSets())}[moved]
	})
	w.Change(d, version("v1.36.3"))
	w.updated(d, "v1.36.3", succeeds)
	require.Equal(t, machines, w.uids())
}

func TestAFailedUpdateInPlaceIsNamedAndTheNextTemplateTriesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.inPlace(3)
	w.rolled(d, "blue", 3)
	machines := w.uids()
	w.Change(d, version("v1.37.0"))
	w.Eventually("the failure to be named", func() string {
		w.updateSelected(func(*unstructured.Unstructured, string) string { return contract.InPlaceFailed })
		if said := w.condition(d, "RollingOut").Message; !strings.Contains(said, "the update in place of 1 Machine failed") {
			return said
		}
		return ""
	})
	w.Change(d, version("v1.37.1"))
	w.updated(d, "v1.37.1", succeeds)
	require.Equal(t, machines, w.uids())
}

func TestAUserSelectsTheMachinesOfAManualUpdateInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.inPlace(2, annotated(contract.OrchestrationAnnotation, contract.OrchestrationManual))
	w.rolled(d, "blue", 2)
	machines := w.uids()
	w.Change(d, version("v1.37.0"))
	w.AwaitCondition(d, deployment.ConditionRollingOut, "", "waiting for a user to select")
	candidate := func() *unstructured.Unstructured {
		for _, m := range w.machinesNow() {
			if contract.ReadInPlace(m.GetAnnotations()).State == contract.InPlaceCandidate {
				return &m
			}
		}
		return nil
	}
	candidates := func() string {
		for _, m := range w.machinesNow() {
			if is := contract.ReadInPlace(m.GetAnnotations()); is.State != contract.InPlaceCandidate {
				return "it is " + m.GetAnnotations()[contract.InPlaceAnnotation]
			}
		}
		return ""
	}
	w.Eventually("all to be candidates", candidates)
	w.Change(candidate(), annotated(contract.InPlaceAnnotation, contract.InPlaceSelected)) // without a set, which is none
	w.Eventually("it to be a candidate again", candidates)
	for range 2 {
		w.Eventually("a candidate to be selected and updated", func() string {
			m := candidate()
			if m == nil {
				return "no candidate"
			}
			w.Change(m, annotated(contract.InPlaceAnnotation, "selected/"+contract.ReadInPlace(m.GetAnnotations()).Set))
			require.Equal(t, 1, w.updateSelected(succeeds))
			return ""
		})
	}
	w.updated(d, "v1.37.0", succeeds)
	require.Equal(t, machines, w.uids())
}
