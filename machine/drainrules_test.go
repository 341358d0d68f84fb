package machine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

func drainRuleKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDrainRule"}
}

type object = map[string]any

// drainRule is a MachineDrainRule about pods with label app.
func drainRule(name, behavior, app string, change ...func(spec object)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: object{}}
	u.SetGroupVersionKind(drainRuleKind())
	u.SetNamespace("default")
	u.SetName(name)
	spec := object{"drain": object{"behavior": behavior}, "pods": []any{object{"selector": object{"matchLabels": object{"app": app}}}}}
	for _, c := range change {
		c(spec)
	}
	u.Object["spec"] = spec
	return u
}

func inOrder(order int64) func(object) {
	return func(spec object) { spec["drain"].(object)["order"] = order } //nolint:forcetypeassert // made above
}

func selecting(list, selector string, labels object) func(object) {
	return func(spec object) {
		entries, _ := spec[list].([]any)
		if len(entries) == 0 {
			entries = []any{object{}}
		}
		entries[0].(object)[selector] = object{"matchLabels": labels} //nolint:forcetypeassert // made above
		spec[list] = entries
	}
}

// ruledWorld is one that drains by MachineDrainRules.
func ruledWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	o.machine.Policy.DrainRules = machine.MachineDrainRules(drain.ClusterAPIRules)
	before := o.before
	o.before = func(w *world) {
		w.Create(fake.CRD(drainRuleKind()))
		if before != nil {
			before(w)
		}
	}
	return newWorld(t, o)
}

// occupied is a Machine whose Node runs a pod of each app. Nothing creates them again.
func (w *world) occupied(name string, apps ...string) *unstructured.Unstructured {
	w.t.Helper()
	m := w.ready(name, fake.WithLabels(map[string]string{"pool": "blue"}))
	for _, app := range apps {
		w.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app, Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "c", Image: "example.com/app"}}},
		})
	}
	return m
}

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	var pod corev1.Pod
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &pod)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil
	}
	require.NoError(w.t, err)
	return &pod
}

// stays fails when a pod is gone or going.
func (w *world) stays(name, why string) {
	w.t.Helper()
	if pod := w.pod(name); pod == nil || pod.DeletionTimestamp != nil {
		w.t.Errorf("Pod %s was evicted, although %s", name, why)
	}
}

// drainSays waits for the message of a drain to have all parts.
func (w *world) drainSays(m *unstructured.Unstructured, parts ...string) {
	w.t.Helper()
	w.Eventually("the drain to say "+strings.Join(parts, ", "), func() string {
		fresh := w.Get(m)
		if fresh == nil {
			return "the Machine is gone"
		}
		c := conditionOf(fresh, contract.ConditionDeleting)
		for _, part := range parts {
			if c.Reason != contract.ReasonDrainingNode || !strings.Contains(c.Message, part) {
				return c.Reason + ": " + c.Message
			}
		}
		return ""
	})
}

func TestDrainRulesSayWhoIsSkippedWhoIsWaitedForAndWhoGoesFirst(t *testing.T) {
	ports := func(_ ctrl.Manager, p *machine.Ports) { clusterLabelled(p, map[string]string{"env": "test"}) }
	w := ruledWorld(t, worldOptions{ports: ports, before: func(w *world) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		require.NoError(w.t, w.client.Patch(w.t.Context(), namespace,
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"shop"}}}`))))
		w.Create(
			drainRule("a-skip", "Skip", "agent", selecting("machines", "selector", object{"pool": "blue"})),
			drainRule("b-skip-elsewhere", "Skip", "web", selecting("machines", "selector", object{"pool": "green"})),
			drainRule("c-of-another-team", "Skip", "web", selecting("pods", "namespaceSelector", object{"team": "bank"})),
			drainRule("c-of-another-cluster", "Skip", "web", selecting("machines", "clusterSelector", object{"env": "live"})),
			drainRule("c-of-this-cluster", "Skip", "cni", selecting("machines", "clusterSelector", object{"env": "test"})),
			drainRule("d-wait", "WaitCompleted", "job", selecting("pods", "namespaceSelector", object{"team": "shop"})),
			drainRule("e-late", "Drain", "db", inOrder(10)),
		)
	}})
	m := w.occupied("m1", "agent", "cni", "web", "job", "db")
	w.Delete(m)
	w.drainSays(m, "Pod default/job: waiting for completion", "the following Pods will be evicted: default/db")
	w.Until("the Pod without an order of its own to go", func() bool { return w.pod("web") == nil })
	w.stays("db", "a rule gives it a later order than the job that runs")
	w.stays("job", "a rule has it waited for")
	w.stays("agent", "a rule has it skipped")
	w.stays("cni", "a rule has it skipped in this Cluster")
	job := w.pod("job")
	job.Status.Phase = corev1.PodSucceeded
	require.NoError(t, w.client.Status().Update(t.Context(), job))
	w.Eventually("the drain", func() string {
		if w.pod("db") != nil {
			return "the Pod with an order is still there: " + describe(w.Get(m))
		}
		return ""
	})
	w.Gone(m)
}

func TestABrokenDrainRuleHoldsTheDrainSaysWhichItIsAndLetsGoWhenItIsMended(t *testing.T) {
	w := ruledWorld(t, worldOptions{before: func(w *world) {
		w.Create(drainRule("oops", "Spare", "web"))
	}})
	m := w.occupied("m1", "web", "other")
	w.Delete(m)
	w.drainSays(m, "Pod default/web", "MachineDrainRule default/oops", "spec.drain.behavior", "Spare")
	w.Until("the Pod that the rule cannot mean to go", func() bool { return w.pod("other") == nil })
	w.stays("web", "it is not clear what the rule wants")
	rule := w.Get(drainRule("oops", "", ""))
	rule.Object["spec"] = drainRule("oops", "Drain", "web").Object["spec"]
	require.NoError(t, w.client.Update(t.Context(), rule))
	w.Gone(m)
}

func TestDrainRulesThatNeedAnUnreadKindHoldTheDrain(t *testing.T) {
	t.Parallel()
	rule := drainRule("of-a-cluster", "Skip", "web", selecting("machines", "clusterSelector", object{"env": "test"}))
	for name, tc := range map[string]struct {
		rule  *unstructured.Unstructured
		ports func(*machine.Ports)
		says  []string
	}{
		"labels of a Cluster": {rule: rule, says: []string{"MachineDrainRule default/of-a-cluster", "of the Cluster that were not read"}},
		"labels of namespaces": {
			rule:  drainRule("of-a-namespace", "Skip", "web", selecting("pods", "namespaceSelector", object{"team": "shop"})),
			ports: func(p *machine.Ports) { p.Workload.Drainer = struct{ cluster.Drainer }{p.Workload.Drainer} },
			says:  []string{"needs labels of namespaces", "have the method NamespaceLabels"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ruledWorld(t, worldOptions{
				before: func(w *world) { w.Create(tc.rule.DeepCopy()) },
				ports: func(_ ctrl.Manager, p *machine.Ports) {
					if tc.ports != nil {
						tc.ports(p)
					}
				},
			})
			m := w.occupied("m1", "web")
			w.Delete(m)
			w.drainSays(m, tc.says...)
			w.stays("web", "it is not known whether the rule means it")
		})
	}
}

// clusterLabelled has every Machine in a Cluster with these labels.
func clusterLabelled(p *machine.Ports, labels map[string]string) {
	p.ClusterOf = func(context.Context, types.NamespacedName) (external.ClusterView, error) {
		view := external.ClusterView{Presence: external.Present,
			State: contract.ClusterState{InfrastructureProvisioned: true, ControlPlaneInitialized: true}}
		view.State.Labels = labels
		view.ActiveControlPlaneMachines = contract.Some(1) // without one, Nodes go with their cluster
		return view, nil
	}
	p.ClusterEvents = noClusterEvents
}

func TestADrainRuleKindThatComesLaterIsNoticedAndCostsNoRequestPerPassBefore(t *testing.T) {
	w := newWorld(t, worldOptions{
		machine: machine.Options{Policy: machine.Policy{DrainRules: machine.MachineDrainRules(drain.ClusterAPIRules)}}})
	first := w.occupied("m1", "web")
	w.Delete(first)
	w.Gone(first) // without the kind there are no rules
	missing := fake.InfraMachineGVK(contract.V1Beta2).GroupVersion().WithKind("LateMachine")
	waiting := fake.Machine("waiting", fake.WithField(map[string]any{"apiGroup": missing.Group, "kind": missing.Kind, "name": "x"}, "spec",
		"infrastructureRef"))
	w.Create(waiting)
	w.conditionIs(waiting, contract.ConditionInfrastructureReady, external.ReasonCRDNotFound)
	w.Create(fake.CRD(drainRuleKind()))
	w.Create(drainRule("keep", "WaitCompleted", "late"))
	w.Create(fake.CRD(missing, contract.V1Beta2)) // who has seen this one has seen the one before
	w.conditionIs(waiting, contract.ConditionInfrastructureReady, contract.ReasonDoesNotExist)
	second := w.occupied("m2", "late")
	w.Delete(second)
	w.drainSays(second, "waiting for completion")
	w.isQuiet()
	w.Delete(w.pod("late"))
	w.Gone(second)
}

// noClusterEvents is a source for Clusters that never change.
func noClusterEvents(external.ClusterMapper) source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
}
