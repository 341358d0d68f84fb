package deployment_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// blocked waits until the condition RollingOut says a text.
func (w *world) blocked(d *unstructured.Unstructured, text string) {
	w.t.Helper()
	w.until("the condition to say "+text, func() bool {
		observed := testenv.Number(w.Get(d), "status", "observedGeneration")
		c := w.condition(d, deployment.ConditionRollingOut) // one of the rollout before may wait to be written anew
		return strings.Contains(c.Message, text) && observed == w.Get(d).GetGeneration()
	})
}

// settled waits until neither a deployment nor its sets were written for a while.
func (w *world) settled(d *unstructured.Unstructured) {
	w.t.Helper()
	before, calm := "", 0
	w.until("the deployment and its sets to rest", func() bool {
		now := w.Get(d).GetResourceVersion()
		for _, s := range w.setsNow() {
			now += " " + s.GetResourceVersion()
		}
		if calm++; now != before {
			before, calm = now, 0
		}
		return calm >= 25
	})
}

func TestAWebhookThatChangesEveryNewSetIsNamedAndCausesNoMoreAndMoreSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.admit = func(obj client.Object) error {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok || u.GetKind() != w.kinds.Set.GVK.Kind {
			return nil
		}
		return unstructured.SetNestedField(u.Object, "v1.36.3-patched", "spec", "template", "spec", "version")
	}
	w.run()
	d := w.deployment(1)
	w.blocked(d, "spec.template.spec.version")
	w.settled(d)
	require.LessOrEqual(t, len(w.setsNow()), 2)
	require.LessOrEqual(t, len(w.machinesNow()), 2, "desired and surge")
	w.Change(d, version("v1.36.3-patched")) // what the webhook makes of it
	w.until("one Machine", func() bool {
		n, c := len(w.machinesNow()), w.condition(d, deployment.ConditionRollingOut)
		return n == 1 && c.Status == "False"
	})
}

func TestASetWhoseCreationIsRejectedIsNamedAndMadeWhenItIsAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	var rejects atomic.Bool
	w.admit = func(obj client.Object) error {
		if kind := obj.GetObjectKind().GroupVersionKind(); rejects.Load() && kind.Kind == w.kinds.Set.GVK.Kind {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "machinesets"}, obj.GetName(), fmt.Errorf("the policy says no"))
		}
		return nil
	}
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	rejects.Store(true)
	w.Change(d, template("green"))
	w.blocked(d, "the policy says no")
	require.Equal(t, map[string]int{"blue": 2}, w.images())
	rejects.Store(false)
	w.rolled(d, "green", 2)
	require.Len(t, w.setsNow(), 2)
}

func TestSetsThatAUserScalesAreScaledBack(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	w.rollTo(d, "green", 2)
	for _, s := range w.setsNow() {
		w.Change(&s, fake.WithField(int64(3), "spec", "replicas"))
	}
	w.Eventually("both sets to be as before", func() string {
		for _, s := range w.setsNow() {
			name := imageOf(&s)
			if want := map[string]int64{"blue": 0, "green": 2}[name]; testenv.Number(&s, "spec", "replicas") != want {
				return fmt.Sprint(w.describeSets())
			}
		}
		return ""
	})
	w.rolled(d, "green", 2)
}

func TestASetWhoseTemplateAUserEditsIsReplacedAndNeverEditedBack(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	edited := w.setsNow()[0]
	w.Change(&edited, template("green"))
	w.until("another set", func() bool { return len(w.setsNow()) == 2 })
	w.rolled(d, "blue", 2)
	require.Equal(t, "green", testenv.Text(w.Get(&edited), "spec", "template", "spec", "infrastructureRef", "name"))
}

func TestTwoDeploymentsWithOneSelectorKeepTheirOwnSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	one := w.deployment(1)
	w.rolled(one, "blue", 1)
	two := w.deployment(2, func(u *unstructured.Unstructured) { u.SetName("others") }, template("green"))
	w.until("each to have its own", func() bool {
		owners := map[string]int64{}
		for _, s := range w.setsNow() {
			owners[metav1.GetControllerOf(&s).Name] += testenv.Number(&s, "spec", "replicas")
		}
		images := w.images()
		return fmt.Sprint(owners) == "map[others:2 workers:1]" && images["blue"] == 1 && images["green"] == 2
	})
	require.NoError(t, w.Client.Delete(t.Context(), two))
	w.Gone(two)
	w.rolled(one, "blue", 1)
	require.Len(t, w.setsNow(), 1)
}

func TestASetThatAnotherControllerOwnsIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	owner := testenv.Object(fake.ClusterGVK(), "demo")
	w.Create(owner)
	foreign := testenv.Object(w.kinds.Set.GVK, "workers-foreign")
	foreign.SetLabels(map[string]string{
		"pool": "workers", contract.ClusterNameLabel: "demo", contract.DeploymentNameLabel: "workers", contract.TemplateHashLabel: "x",
	})
	foreign.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, fake.ClusterGVK())})
	foreign.SetAnnotations(map[string]string{contract.PausedAnnotation: ""}) // its own reconciler looks after it
	foreign.Object["spec"] = map[string]any{"clusterName": "demo", "replicas": int64(1)}
	w.Create(foreign)
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	require.NoError(t, w.Client.Delete(t.Context(), d))
	w.Gone(d)
	now := w.Get(foreign)
	require.NotNil(t, now)
	require.Equal(t, []any{foreign.Object["spec"], foreign.GetLabels(), foreign.GetAnnotations(), foreign.GetOwnerReferences()},
		[]any{now.Object["spec"], now.GetLabels(), now.GetAnnotations(), now.GetOwnerReferences()})
}

func TestRevisionsThatWereTakenAwayAreNumberedAgain(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 1)
	w.rollTo(d, "green", 1)
	for _, s := range w.setsNow() {
		w.Change(&s, withoutAnnotation(contract.RevisionAnnotation))
	}
	w.Change(d, withoutAnnotation(contract.RevisionAnnotation))
	w.Eventually("a revision", func() string {
		of := w.Get(d).GetAnnotations()[contract.RevisionAnnotation]
		for _, s := range w.setsNow() {
			if of != "" && s.GetLabels()[contract.TemplateHashLabel] == w.hashOf("green") && s.GetAnnotations()[contract.RevisionAnnotation] == of {
				return ""
			}
		}
		return fmt.Sprint(of, w.describeSets())
	})
	w.rollTo(d, "blue", 1)
	require.Len(t, w.setsNow(), 2)
}

func TestAPausedSetIsNamedWhileItHoldsARolloutUp(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	old := w.setsNow()[0]
	w.Change(&old, annotated(contract.PausedAnnotation, ""))
	w.Change(d, template("green"))
	w.blocked(d, "MachineSet "+old.GetName()+" is paused")
	require.Equal(t, 2, w.images()["blue"])
	w.Change(&old, withoutAnnotation(contract.PausedAnnotation))
	w.rolled(d, "green", 2)
}

func TestASelectorThatChangesNeedsASetOfItsOwn(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	stop := w.watch()
	other := map[string]any{"team": "others"}
	w.Change(d, func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedMap(u.Object, other, "spec", "selector", "matchLabels"))
		require.NoError(t, unstructured.SetNestedMap(u.Object, other, "spec", "template", "metadata", "labels"))
	})
	w.Eventually("Machines with the new label that a set selects", func() string {
		machines, sets := w.machinesNow(), w.setsNow()
		for _, m := range machines {
			if m.GetLabels()["team"] != "others" || m.GetLabels()["pool"] != "" {
				return fmt.Sprint(m.GetLabels(), w.describeSets())
			}
		}
		for _, s := range sets {
			replicas := testenv.Number(&s, "spec", "replicas")
			if replicas > 0 && testenv.Text(&s, "spec", "selector", "matchLabels", "team") != "others" {
				return fmt.Sprint(w.describeSets())
			}
		}
		if len(machines) != 2 || len(sets) != 2 {
			return fmt.Sprint(len(machines), w.describeSets())
		}
		return ""
	})
	stop()
	require.LessOrEqual(t, w.most, 3, "maxSurge is 1")
	require.GreaterOrEqual(t, w.least, 2, "maxUnavailable is 0")
}

func TestAnOldSetInDeletionWhoseMachinesHangIsWaitedForByName(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	old := w.setsNow()[0]
	hanging := w.machinesNow()[0].GetName()
	w.machines.Hold(true)
	w.Change(d, template("green"))
	require.NoError(t, w.Client.Delete(t.Context(), &old))
	w.blocked(d, hanging)
	w.settled(d)
	require.LessOrEqual(t, w.images()["green"], 1, "desired and surge")
	w.machines.Hold(false)
	w.rolled(d, "green", 2)
	w.Gone(&old)
}

func TestADeploymentThatGoesInTheMiddleOfARolloutLeavesItsMachinesOrTakesThemAlong(t *testing.T) {
	t.Parallel()
	for policy, left := range map[metav1.DeletionPropagation]int{
		metav1.DeletePropagationOrphan: 3, metav1.DeletePropagationForeground: 0, metav1.DeletePropagationBackground: 0,
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w, d := rolledOut(t, 2)
			blue := w.hashOf("blue")
			w.machines.NotReady(func(m client.Object) bool { return m.GetLabels()[contract.TemplateHashLabel] != blue })
			w.Change(d, template("green"))
			w.blocked(d, "to become available")
			w.until("the first Machine of the other template", func() bool { return len(w.machinesNow()) == 3 })
			require.NoError(t, w.Client.Delete(t.Context(), d, client.PropagationPolicy(policy)))
			w.until("the deployment to go", func() bool { return w.Get(d) == nil && len(w.machinesNow()) == left })
			for _, s := range w.setsNow() {
				require.Nil(t, metav1.GetControllerOf(&s))
			}
			require.Equal(t, left > 0, len(w.setsNow()) > 0)
		})
	}
}

func TestWhatARolloutNeedsNoNewMachinesForReachesThoseThatThereAre(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	machines := w.uids()
	w.Change(d, fake.WithField("gold", "spec", "template", "metadata", "labels", "tier"),
		fake.WithField(int64(77), "spec", "template", "spec", "deletion", "nodeDrainTimeoutSeconds"),
		fake.WithField("Newest", "spec", "deletion", "order"))
	w.Eventually("the Machines and the set to have it", func() string {
		for _, m := range w.machinesNow() {
			if drain, _, _ := unstructured.NestedInt64(m.Object, "spec", "deletion", "nodeDrainTimeoutSeconds"); drain != 77 ||
				m.GetLabels()["tier"] != "gold" {
				return fmt.Sprint(m.GetLabels(), drain)
			}
		}
		if order := testenv.Text(&w.setsNow()[0], "spec", "deletion", "order"); order != "Newest" {
			return order
		}
		return ""
	})
	require.Equal(t, machines, w.uids())
	require.Len(t, w.setsNow(), 1)
}

func TestAPausedRolloutWithOnDeleteReplacesWhatIsMissingByTheSame(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2, fake.WithField("OnDelete", "spec", "rollout", "strategy", "type"))
	w.Change(d, template("green"))
	w.blocked(d, "must be deleted")
	w.Change(d, fake.WithField(true, "spec", "paused"), fake.WithField(int64(3), "spec", "replicas"))
	w.until("the old set to grow", func() bool { return w.images()["blue"] == 3 })
	require.Zero(t, w.images()["green"])
	w.Change(d, fake.WithField(false, "spec", "paused"))
	w.blocked(d, "3 outdated Machines must be deleted")
}
