package deployment_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func withoutAnnotation(key string) fake.Option {
	return func(u *unstructured.Unstructured) {
		all := u.GetAnnotations()
		delete(all, key)
		u.SetAnnotations(all)
	}
}

// Its sets may be yet to come from the backup.
func TestADeploymentThatWasRestoredWithoutItsSetsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	w.stop()
	w.Change(d, annotated(scale.LedgerAnnotation, `{"uid":"of-before","next":2}`))
	require.NoError(t, w.Client.Delete(t.Context(), &w.setsNow()[0], client.PropagationPolicy(metav1.DeletePropagationBackground)))
	w.Eventually("the set to go", func() string { return strings.Join(w.describeSets(), ", ") })
	w.run()
	uid := string(w.Get(d).GetUID())
	w.until("a condition to say what to do", func() bool {
		said := fmt.Sprint(w.Get(d).Object["status"])
		return strings.Contains(said, children.RestoredAnnotation+" to "+uid)
	})
	require.Empty(t, w.setsNow())
	w.Change(d, annotated(children.RestoredAnnotation, uid))
	w.rolled(d, "blue", 2)
}

// The name of a set is used again by a deployment that has lost its ledger, and does not know that it ever had a set.
func TestASetDoesNotAdoptWhatAnEarlierOneOfItsNameHasMadeFromAnotherTemplate(t *testing.T) {
	for image, adopted := range map[string]bool{"blue": true, "green": false} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			w, d := rolledOut(t, 2)
			w.stop()
			w.Change(d, template(image), func(u *unstructured.Unstructured) { // its first status was never written
				u.SetAnnotations(nil)
				delete(u.Object, "status")
			})
			old := w.setsNow()[0]
			require.NoError(t, w.Client.Delete(t.Context(), &old, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
			w.Eventually("the set to go", func() string { return strings.Join(w.describeSets(), ", ") })
			orphans := w.machinesNow()
			require.Len(t, orphans, 2)
			w.run()
			w.until("two Machines that are available", func() bool { // the status says nothing before
				return testenv.Number(w.Get(d), "status", "availableReplicas") == 2
			})
			w.settled(d)
			require.Equal(t, old.GetName(), w.setsNow()[0].GetName())
			for i := range orphans {
				require.Equal(t, adopted, metav1.GetControllerOf(w.Get(&orphans[i])) != nil)
			}
			require.Equal(t, 2, w.images()[image])
		})
	}
}

func TestTwoLeadersAtOnceMakeOneSetForATemplate(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	w.run()
	d := w.deployment(3)
	w.rolled(d, "blue", 3)
	w.rollTo(d, "green", 3)
	require.Len(t, w.setsNow(), 2)
}

func TestARolloutThatChangesItsMindHalfWayEndsWithTheLastTemplate(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 4)
	watched := w.watch()
	w.Change(d, template("green"))
	w.until("a green one", func() bool { return w.images()["green"] != 0 })
	w.rollTo(d, "blue", 4)
	watched()
	require.LessOrEqual(t, w.most, 5)
	require.GreaterOrEqual(t, w.least, 4)
}

func TestASelectorThatDoesNotMatchTheTemplateIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(1, fake.WithField("others", "spec", "selector", "matchLabels", "pool"))
	w.AwaitCondition(d, deployment.ConditionRollingOut, "", "does not match the labels")
	require.Empty(t, w.setsNow())
}

func TestWithOnDeleteAMachineIsReplacedWhenAUserDeletesIt(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2, fake.WithField("OnDelete", "spec", "rollout", "strategy", "type"))
	w.Change(d, template("green"))
	for want := range 2 {
		w.until("Machines to be replaced one by one", func() bool {
			images := w.images()
			return images["green"] == want && images["blue"] == 2-want && len(w.setsNow()) == 2
		})
		for _, m := range w.machinesNow() {
			if m.GetLabels()[contract.TemplateHashLabel] != w.hashOf("green") {
				require.NoError(t, w.Client.Delete(t.Context(), &m))
				break
			}
		}
	}
	w.rolled(d, "green", 2)
}

// What a user deletes of an outdated set is not made again before the controller of sets has looked at the new one.
func TestAnOutdatedSetCreatesNothingBesideASetThatIsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run() // without a controller of sets
	d := w.deployment(2, fake.WithField("OnDelete", "spec", "rollout", "strategy", "type"))
	w.Eventually("a set", func() string { return map[bool]string{true: "none"}[len(w.setsNow()) != 1] })
	w.Change(d, template("green"))
	w.Eventually("the outdated set to create no Machines", func() string {
		sets := w.setsNow()
		kept := slices.ContainsFunc(sets, func(set unstructured.Unstructured) bool {
			return set.GetAnnotations()["cluster.x-k8s.io/disable-machine-create"] == "true"
		})
		return map[bool]string{true: fmt.Sprint(len(sets), " sets, none of them is kept from it")}[len(sets) != 2 || !kept]
	})
}

func TestTheSameRightsAreNeededAsTheRequestsThatAreMade(t *testing.T) {
	t.Parallel()
	flat := map[string][]string{}
	for _, r := range deployment.PolicyRules(deployment.Wiring{
		Kinds: clusterAPI(), Templates: []schema.GroupResource{{Group: "example.com", Resource: "t"}}, Clusters: true, Events: true,
	}) {
		for _, resource := range r.Resources {
			flat[resource+"."+r.APIGroups[0]] = r.Verbs
		}
	}
	want := map[string][]string{
		"machinedeployments.cluster.x-k8s.io":        {"get", "list", "watch", "patch"},
		"machinedeployments/status.cluster.x-k8s.io": {"patch"},
		"machinesets.cluster.x-k8s.io":               {"get", "list", "watch", "create", "patch", "delete"},
		"machines.cluster.x-k8s.io":                  {"list", "watch", "patch"},
		"machines/status.cluster.x-k8s.io":           {"patch"},
		"t.example.com":                              {"list", "watch", "patch"}, "clusters.cluster.x-k8s.io": {"get", "list", "watch"},
		"customresourcedefinitions.apiextensions.k8s.io": {"list", "watch"}, "events.events.k8s.io": {"create", "patch"},
	}
	if diff := cmp.Diff(want, flat, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An earlier change of its replicas, whose answer was lost, may have taken effect: the new MachineSet would be one too many.
func TestNoSetIsMadeBesideOneThatCannotBeWritten(t *testing.T) {
	sets := schema.GroupResource{Resource: "machinesets"}
	for name, tc := range map[string]struct {
		err error
		on  bool
	}{
		"a conflict":                      {err: apierrors.NewConflict(sets, "", errors.New("changed"))},
		"a timeout":                       {err: apierrors.NewTimeoutError("slow", 0)},
		"a refusal":                       {err: apierrors.NewForbidden(sets, "", errors.New("admission webhook denied the request")), on: true},
		"an annotation that is too large": {err: apierrors.NewRequestEntityTooLargeError("limit is 3145728"), on: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, d := rolledOut(t, 2)
			old := w.setsNow()[0].GetName()
			ofOld := func(r fake.Request) bool { return r.UserAgent == "deployments" && r.Verb == "patch" && r.Name == old }
			mend := w.Store.Inject(fake.Fault{Err: tc.err, Times: -1, Match: ofOld})
			w.Change(d, template("green"))
			w.Eventually("three attempts to write the old set", func() string {
				n := w.Store.CountRequests(func(r fake.Request) bool { return ofOld(r) && r.Code >= 400 })
				return map[bool]string{true: fmt.Sprint(n)}[n < 3]
			})
			if tc.on {
				w.Eventually("another set", func() string { return map[bool]string{true: "there is none"}[len(w.setsNow()) < 2] })
			} else {
				require.Len(t, w.describeSets(), 1)
			}
			mend()
			w.rolled(d, "green", 2)
		})
	}
}
