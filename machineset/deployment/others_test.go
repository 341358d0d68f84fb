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
	"github.com/machinist-dev/machinist/machineset/deployment"
)

// blocked waits until the condition RollingOut says a text.
func (w *world) blocked(d *unstructured.Unstructured, text string) {
	w.t.Helper()
	w.eventually("the condition to say "+text, func() string {
		observed, _, _ := unstructured.NestedInt64(w.get(d).Object, "status", "observedGeneration")
		c := w.condition(d, deployment.ConditionRollingOut) // one of the rollout before may wait to be written anew
		if !strings.Contains(c.Message, text) || observed != w.get(d).GetGeneration() {
			return fmt.Sprint(c.Message, observed, w.describeSets())
		}
		return ""
	})
}

// settled waits until neither a deployment nor its sets were written for a while.
func (w *world) settled(d *unstructured.Unstructured) {
	w.t.Helper()
	before, calm := "", 0
	w.eventually("the deployment and its sets to rest", func() string {
		now := w.get(d).GetResourceVersion()
		for _, s := range w.setsNow() {
			now += " " + s.GetResourceVersion()
		}
		if calm++; now != before {
			before, calm = now, 0
		}
		if calm < 25 {
			return now
		}
		return ""
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
	require.LessOrEqual(t, len(w.list(w.kinds.Machine.GVK)), 2, "desired and surge")
	w.change(d, version("v1.36.3-patched")) // what the webhook makes of it
	w.eventually("one Machine", func() string {
		if n, c := len(w.list(w.kinds.Machine.GVK)), w.condition(d, deployment.ConditionRollingOut); n != 1 || c.Status != "False" {
			return fmt.Sprint(n, c.Message, w.describeSets())
		}
		return ""
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
	w.change(d, template("green"))
	w.blocked(d, "the policy says no")
	require.Equal(t, map[string]int{"blue": 2}, w.images())
	rejects.Store(false)
	w.rolled(d, "green", 2)
	require.Len(t, w.setsNow(), 2)
}

func TestSetsThatAUserScalesAreScaledBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	w.change(d, template("green"))
	w.rolled(d, "green", 2)
	for _, s := range w.setsNow() {
		w.change(&s, fake.WithField(int64(3), "spec", "replicas"))
	}
	w.eventually("both sets to be as before", func() string {
		for _, s := range w.setsNow() {
			name, _, _ := unstructured.NestedString(s.Object, "spec", "template", "spec", "infrastructureRef", "name")
			replicas, _, _ := unstructured.NestedInt64(s.Object, "spec", "replicas")
			if want := map[string]int64{"blue": 0, "green": 2}[name]; replicas != want {
				return fmt.Sprint(w.describeSets())
			}
		}
		return ""
	})
	w.rolled(d, "green", 2)
}

func TestASetWhoseTemplateAUserEditsIsReplacedAndNeverEditedBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	edited := w.setsNow()[0]
	w.change(&edited, template("green"))
	w.eventually("another set", func() string {
		if len(w.setsNow()) != 2 {
			return fmt.Sprint(w.describeSets())
		}
		return ""
	})
	w.rolled(d, "blue", 2)
	name, _, _ := unstructured.NestedString(w.get(&edited).Object, "spec", "template", "spec", "infrastructureRef", "name")
	require.Equal(t, "green", name)
}

func TestTwoDeploymentsWithOneSelectorKeepTheirOwnSets(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	one := w.deployment(1)
	w.rolled(one, "blue", 1)
	two := w.deployment(2, func(u *unstructured.Unstructured) { u.SetName("others") }, template("green"))
	w.eventually("each to have its own", func() string {
		owners := map[string]int64{}
		for _, s := range w.setsNow() {
			replicas, _, _ := unstructured.NestedInt64(s.Object, "spec", "replicas")
			owners[metav1.GetControllerOf(&s).Name] += replicas
		}
		images := w.images()
		if fmt.Sprint(owners) != "map[others:2 workers:1]" || images["blue"] != 1 || images["green"] != 2 {
			return fmt.Sprint(owners, images)
		}
		return ""
	})
	require.NoError(t, w.client.Delete(t.Context(), two))
	w.eventually("the other one to go", func() string {
		if w.get(two) != nil {
			return "it is there"
		}
		return ""
	})
	w.rolled(one, "blue", 1)
	require.Len(t, w.setsNow(), 1)
}

func TestASetThatAnotherControllerOwnsIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	owner := object(fake.ClusterGVK(), "demo")
	require.NoError(t, w.client.Create(t.Context(), owner))
	foreign := object(w.kinds.Set.GVK, "workers-foreign")
	foreign.SetLabels(map[string]string{
		"pool": "workers", contract.ClusterNameLabel: "demo", contract.DeploymentNameLabel: "workers", contract.TemplateHashLabel: "x",
	})
	foreign.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, fake.ClusterGVK())})
	foreign.SetAnnotations(map[string]string{contract.PausedAnnotation: ""}) // its own reconciler looks after it
	foreign.Object["spec"] = map[string]any{"clusterName": "demo", "replicas": int64(1)}
	require.NoError(t, w.client.Create(t.Context(), foreign))
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	require.NoError(t, w.client.Delete(t.Context(), d))
	w.eventually("the deployment to go", func() string {
		if w.get(d) != nil {
			return "it is there"
		}
		return ""
	})
	now := w.get(foreign)
	require.NotNil(t, now)
	require.Equal(t, []any{foreign.Object["spec"], foreign.GetLabels(), foreign.GetAnnotations(), foreign.GetOwnerReferences()},
		[]any{now.Object["spec"], now.GetLabels(), now.GetAnnotations(), now.GetOwnerReferences()})
}

func TestRevisionsThatWereTakenAwayAreNumberedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(1)
	w.rolled(d, "blue", 1)
	w.change(d, template("green"))
	w.rolled(d, "green", 1)
	for _, s := range w.setsNow() {
		w.change(&s, withoutAnnotation(contract.RevisionAnnotation))
	}
	w.change(d, withoutAnnotation(contract.RevisionAnnotation))
	w.eventually("a revision", func() string {
		of := w.get(d).GetAnnotations()[contract.RevisionAnnotation]
		for _, s := range w.setsNow() {
			if of != "" && s.GetLabels()[contract.TemplateHashLabel] == w.hashOf("green") && s.GetAnnotations()[contract.RevisionAnnotation] == of {
				return ""
			}
		}
		return fmt.Sprint(of, w.describeSets())
	})
	w.change(d, template("blue"))
	w.rolled(d, "blue", 1)
	require.Len(t, w.setsNow(), 2)
}

func TestAPausedSetIsNamedWhileItHoldsARolloutUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	old := w.setsNow()[0]
	w.change(&old, annotated(contract.PausedAnnotation, ""))
	w.change(d, template("green"))
	w.blocked(d, "MachineSet "+old.GetName()+" is paused")
	require.Equal(t, 2, w.images()["blue"])
	w.change(&old, withoutAnnotation(contract.PausedAnnotation))
	w.rolled(d, "green", 2)
}

func TestASelectorThatChangesNeedsASetOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	stop := w.watch()
	other := map[string]any{"team": "others"}
	w.change(d, func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedMap(u.Object, other, "spec", "selector", "matchLabels"))
		require.NoError(t, unstructured.SetNestedMap(u.Object, other, "spec", "template", "metadata", "labels"))
	})
	w.eventually("Machines with the new label that a set selects", func() string {
		machines, sets := w.list(w.kinds.Machine.GVK), w.setsNow()
		for _, m := range machines {
			if m.GetLabels()["team"] != "others" || m.GetLabels()["pool"] != "" {
				return fmt.Sprint(m.GetLabels(), w.describeSets())
			}
		}
		for _, s := range sets {
			replicas, _, _ := unstructured.NestedInt64(s.Object, "spec", "replicas")
			label, _, _ := unstructured.NestedString(s.Object, "spec", "selector", "matchLabels", "team")
			if replicas > 0 && label != "others" {
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
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	old := w.setsNow()[0]
	hanging := w.list(w.kinds.Machine.GVK)[0].GetName()
	w.machines.Hold(true)
	w.change(d, template("green"))
	require.NoError(t, w.client.Delete(t.Context(), &old))
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
			w := newWorld(t).live()
			w.run()
			d := w.deployment(2)
			w.rolled(d, "blue", 2)
			blue := w.hashOf("blue")
			w.machines.NotReady(func(m client.Object) bool { return m.GetLabels()[contract.TemplateHashLabel] != blue })
			w.change(d, template("green"))
			w.blocked(d, "to become available")
			w.eventually("the first Machine of the other template", func() string {
				if n := len(w.list(w.kinds.Machine.GVK)); n != 3 {
					return fmt.Sprint(n, w.describeSets())
				}
				return ""
			})
			require.NoError(t, w.client.Delete(t.Context(), d, client.PropagationPolicy(policy)))
			w.eventually("the deployment to go", func() string {
				if w.get(d) != nil || len(w.list(w.kinds.Machine.GVK)) != left {
					return fmt.Sprint(w.describeSets(), len(w.list(w.kinds.Machine.GVK)))
				}
				return ""
			})
			for _, s := range w.setsNow() {
				require.Nil(t, metav1.GetControllerOf(&s))
			}
			require.Equal(t, left > 0, len(w.setsNow()) > 0)
		})
	}
}

func TestWhatARolloutNeedsNoNewMachinesForReachesThoseThatThereAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	machines := w.uids()
	w.change(d, fake.WithField("gold", "spec", "template", "metadata", "labels", "tier"),
		fake.WithField(int64(77), "spec", "template", "spec", "deletion", "nodeDrainTimeoutSeconds"),
		fake.WithField("Newest", "spec", "deletion", "order"))
	w.eventually("the Machines and the set to have it", func() string {
		for _, m := range w.list(w.kinds.Machine.GVK) {
			if drain, _, _ := unstructured.NestedInt64(m.Object, "spec", "deletion", "nodeDrainTimeoutSeconds"); drain != 77 ||
				m.GetLabels()["tier"] != "gold" {
				return fmt.Sprint(m.GetLabels(), drain)
			}
		}
		if order, _, _ := unstructured.NestedString(w.setsNow()[0].Object, "spec", "deletion", "order"); order != "Newest" {
			return order
		}
		return ""
	})
	require.Equal(t, machines, w.uids())
	require.Len(t, w.setsNow(), 1)
}

func TestAPausedRolloutWithOnDeleteReplacesWhatIsMissingByTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2, fake.WithField("OnDelete", "spec", "rollout", "strategy", "type"))
	w.rolled(d, "blue", 2)
	w.change(d, template("green"))
	w.blocked(d, "must be deleted")
	w.change(d, fake.WithField(true, "spec", "paused"), fake.WithField(int64(3), "spec", "replicas"))
	w.eventually("the old set to grow", func() string {
		if n := w.images()["blue"]; n != 3 {
			return fmt.Sprint(w.images(), w.describeSets())
		}
		return ""
	})
	require.Zero(t, w.images()["green"])
	w.change(d, fake.WithField(false, "spec", "paused"))
	w.blocked(d, "3 outdated Machines must be deleted")
}
