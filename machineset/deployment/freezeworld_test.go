package deployment_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/machineset/scale"
)

const freezer = "freezer-under-test"

func clusterAPI() contract.Kinds {
	kinds, _ := contract.ClusterAPI(contract.V1Beta2)
	return kinds
}

// setsWorld is a store with sets, whose Machines the tests make themselves.
type setsWorld struct {
	*testenv.Env

	t     *testing.T
	kinds contract.Kinds
	made  int
}

func newSetsWorld(t *testing.T, kinds contract.Kinds, options ...func(*fake.Options)) *setsWorld {
	t.Helper()
	o := fake.Options{Kinds: []fake.ServedKind{
		{GVK: kinds.Deployment.GVK, Status: true}, {GVK: kinds.Set.GVK, Status: true},
		{GVK: kinds.Machine.GVK, Status: true},
		{GVK: fake.ClusterGVK(), Status: true}, {GVK: fake.MachinePoolGVK(), Status: true},
	}}
	for _, option := range options {
		option(&o)
	}
	env := testenv.Start(t, o, fake.Loops{}, nil)
	return &setsWorld{Env: env, t: t, kinds: kinds}
}

// nothing returns a step that does nothing.
func nothing[P any](name string, on engine.Life) pass.Step[P] {
	return pass.Step[P]{Name: name, On: on, Run: func(context.Context, P) (pass.Result, error) { return pass.Result{}, nil }}
}

// freezer starts reconcilers of sets and deployments that freeze, and neither create nor delete.
func (w *setsWorld) freezer(limits scale.FreezeLimits) (stop func()) {
	w.t.Helper()
	mgr := w.Manager(freezer, ctrl.Options{})
	sets := machineset.Steps().Replace(machineset.StepScale, nothing[*machineset.Scope](machineset.StepScale, pass.InBoth)).
		InsertBefore(machineset.StepHolds, machineset.FreezeStep(machineset.FreezeOptions{
			Limits: limits, Deployment: w.kinds.Deployment, Period: 100 * time.Millisecond,
		}))
	_, err := machineset.SetupWithManager(w.t.Context(), mgr, w.kinds, machineset.Options{Steps: sets})
	require.NoError(w.t, err)
	deployments := deployment.Steps().Remove(deployment.StepRollback).Remove(deployment.StepSync).
		Remove(deployment.StepHistory).Remove(deployment.StepUpToDate).
		Replace(deployment.StepRollout, nothing[*deployment.Scope](deployment.StepRollout, pass.InRunning)).
		InsertAfter(deployment.StepSets, deployment.FreezeStep())
	_, err = deployment.SetupWithManager(w.t.Context(), mgr, w.kinds, deployment.Options{Steps: deployments})
	require.NoError(w.t, err)
	return w.Run(mgr)
}

func (w *setsWorld) deployment(name string, replicas int64, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	u := testenv.Object(w.kinds.Deployment.GVK, name)
	u.Object["spec"] = map[string]any{
		"replicas": replicas, "selector": map[string]any{"matchLabels": map[string]any{"pool": name}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"pool": name}}, "spec": map[string]any{}},
	}
	for _, option := range options {
		option(u)
	}
	w.Create(u)
	return u
}

// set creates a set, of a deployment where there is one.
func (w *setsWorld) set(name string, replicas int64, of *unstructured.Unstructured, options ...fake.Option) *unstructured.Unstructured {
	w.t.Helper()
	u := testenv.Object(w.kinds.Set.GVK, name)
	u.Object["spec"] = map[string]any{
		"replicas": replicas, "selector": map[string]any{"matchLabels": map[string]any{"set": name}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"set": name}}, "spec": map[string]any{}},
	}
	if of != nil {
		u.SetOwnerReferences([]metav1.OwnerReference{controlledBy(of)})
	}
	for _, option := range options {
		option(u)
	}
	w.Create(u)
	return u
}

func controlledBy(u *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), UID: u.GetUID(), Controller: new(true),
		BlockOwnerDeletion: new(true),
	}
}

// machines creates some that a set controls, and that it selects.
func (w *setsWorld) machines(set *unstructured.Unstructured, n int, options ...fake.Option) (all []*unstructured.Unstructured) {
	w.t.Helper()
	for range n {
		w.made++
		u := testenv.Object(w.kinds.Machine.GVK, fmt.Sprintf("m-%d", w.made))
		u.SetLabels(map[string]string{"set": set.GetName()})
		u.SetOwnerReferences([]metav1.OwnerReference{controlledBy(set)})
		u.Object["spec"] = map[string]any{}
		for _, option := range options {
			option(u)
		}
		w.Create(u)
		all = append(all, u)
	}
	return all
}

func (w *setsWorld) delete(all []*unstructured.Unstructured) {
	w.t.Helper()
	for _, u := range all {
		require.NoError(w.t, w.Client.Delete(w.t.Context(), u))
	}
}

// frozen waits until objects have the label and the condition, and thawed until they have neither.
func (w *setsWorld) frozen(reason string, all ...*unstructured.Unstructured) {
	w.t.Helper()
	for _, u := range all {
		w.Eventually(u.GetName()+" to freeze", func() string {
			now := w.Get(u)
			if now.GetLabels()[scale.FreezeLabel] != reason || w.condition(now).Reason != reason {
				return fmt.Sprint(now.GetLabels(), now.GetAnnotations(), now.Object["status"])
			}
			return ""
		})
	}
}

func (w *setsWorld) thawed(all ...*unstructured.Unstructured) {
	w.t.Helper()
	for _, u := range all {
		w.Eventually(u.GetName()+" to thaw", func() string {
			now := w.Get(u)
			marks := slices.Collect(maps.Keys(now.GetLabels()))
			marks = slices.AppendSeq(marks, maps.Keys(now.GetAnnotations()))
			if slices.ContainsFunc(marks, func(key string) bool { return strings.Contains(key, "freeze") }) ||
				w.condition(now).Reason != "" {
				return fmt.Sprint(now.GetLabels(), now.GetAnnotations(), now.Object["status"])
			}
			return ""
		})
	}
}

func (w *setsWorld) condition(u *unstructured.Unstructured) metav1.Condition {
	w.t.Helper()
	var conditions []metav1.Condition
	if u.GetKind() == w.kinds.Set.GVK.Kind {
		var s contract.MachineSetState
		require.NoError(w.t, w.kinds.Set.Adapter.Read(u, &s))
		conditions = s.Conditions
	} else {
		var d contract.MachineDeploymentState
		require.NoError(w.t, w.kinds.Deployment.Adapter.Read(u, &d))
		conditions = d.Conditions
	}
	c, _ := engine.Find(conditions, scale.ConditionFrozen)
	return c
}

// isAtWork waits until a Freezer has seen all that was written to sets before: it freezes a set that is new.
func (w *setsWorld) isAtWork() {
	w.t.Helper()
	canary := w.set(fmt.Sprintf("canary-%d", w.made), 1, nil)
	w.machines(canary, 6)
	w.frozen(scale.ReasonOverShooting, canary)
}

// stays waits until a Freezer has looked at an object a few times more, and wants it to have no label.
func (w *setsWorld) stays(u *unstructured.Unstructured) {
	w.t.Helper()
	w.Never(u.GetName()+" freezes", 400*time.Millisecond, func() string {
		if _, found := w.Get(u).GetLabels()[scale.FreezeLabel]; found {
			return fmt.Sprint(w.condition(w.Get(u)).Message)
		}
		return ""
	})
}
