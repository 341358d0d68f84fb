package remediation_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

func TestTwoChecksOfOneMachineDoNotWriteItsConditionsInTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	w.machine("a", "", fake.WithLabels(map[string]string{"shared": "yes"}))
	w.machine("b", "")
	w.machine("c", "", fake.WithLabels(map[string]string{"shared": "yes", "role": "other"}))
	w.becomes("a", corev1.ConditionUnknown, 10*time.Minute)
	older, younger := w.check("older"), w.check("a-younger")
	long := []any{map[string]any{"type": "Ready", "status": "Unknown", "timeoutSeconds": int64(36000)}}
	require.NoError(t, unstructured.SetNestedSlice(younger.Object, long, "spec", "checks", "unhealthyNodeConditions"))
	require.NoError(t, unstructured.SetNestedField(younger.Object, map[string]any{"shared": "yes"}, "spec", "selector", "matchLabels"))
	w.Create(older)
	time0 := w.Get(older).GetCreationTimestamp()
	w.Until("be a second later", func() bool { return time.Since(time0.Time) >= 1100*time.Millisecond })
	w.Create(younger)
	w.run(remediation.Options{})
	w.reports(marked, "a")
	w.reports(healthy, "b", "c")
	w.status(older, 2, 1, 1)
	w.status(younger, 1, 1, 1)
	w.condition(younger, contract.ConditionRemediationAllowed, "True/RemediationAllowed", "judged by older ones, such as older")
	w.Quiet(userAgent, 2*time.Second)

	w.Change(older, fake.WithAnnotations(map[string]string{contract.PausedAnnotation: ""}))
	w.status(younger, 2, 1, 1) // a check that is paused writes nothing, so the other one takes over, with its own rules
	w.Quiet(userAgent, time.Second)
}

// A Machine that an older check judged was there when another one was marked: it does not take that one's place once the older check is
// paused.
func TestAMachineOfAnOlderCheckIsNoReplacement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "zone-"+name)
	}
	older, younger := w.check("a-older"), w.check("younger", limited(int64(1)))
	require.NoError(t, unstructured.SetNestedField(older.Object, map[string]any{"shared": "yes"}, "spec", "selector", "matchLabels"))
	w.Create(older, younger)
	born := w.Get(w.ref("d")).GetCreationTimestamp()
	w.Until("be a second later", func() bool { return time.Now().Unix() > born.Unix() })
	w.machine("y", "zone-y", fake.WithLabels(map[string]string{"shared": "yes"}))
	w.run(remediation.Options{})
	w.status(younger, 4, 4, 1)
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	w.reports(marked, "a")
	w.Delete(w.Get(w.ref("a")))
	w.Gone(w.ref("a"))
	w.Change(older, fake.WithAnnotations(map[string]string{contract.PausedAnnotation: ""}))
	w.status(younger, 4, 4, 0)
	w.becomes("b", corev1.ConditionUnknown, 2*time.Hour)
	w.reports(held, "b")
}

// unreachable has the Nodes of all clusters be those of a cluster that is down until it is not.
func unreachable(w *world, down func() bool) {
	workloads(w, func(own cluster.Workload) (cluster.Workload, error) {
		if down() {
			return cluster.Workload{}, cluster.ErrNotConnected
		}
		return own, nil
	})
}

// workloads has the access to all clusters be what a function makes of the one to the store.
func workloads(w *world, of func(own cluster.Workload) (cluster.Workload, error)) {
	w.ports = func(p *remediation.Ports) {
		own := p.Workload
		p.NodesOf = func(types.NamespacedName) (cluster.Workload, error) { return of(own) }
		p.WorkloadEvents = func(cluster.Mapper) source.Source {
			return source.Func(func(_ ctxOf, _ queueOf) error { return nil })
		}
	}
}

func TestAClusterThatCannotBeReachedLeavesTheMachinesToBeJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "")
		w.becomes(name, corev1.ConditionUnknown, time.Hour)
	}
	unreachable(w, func() bool { return true })
	check := w.check("workers")
	rule := []any{map[string]any{"type": "InfrastructureReady", "status": "False", "timeoutSeconds": int64(60)}}
	require.NoError(t, unstructured.SetNestedSlice(check.Object, rule, "spec", "checks", "unhealthyMachineConditions"))
	w.update(w.ref("a"), contract.MachineUpdate{Conditions: []metav1.Condition{{Type: contract.ConditionInfrastructureReady,
		Status: metav1.ConditionFalse, Reason: "Gone", LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}}})
	w.Change(w.ref("b"), fake.WithAnnotations(map[string]string{contract.RemediateAnnotation: ""}))
	require.NoError(t, w.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c"}})) // nothing knows
	w.Create(check)
	w.run(remediation.Options{})
	w.reports("HealthCheckSucceeded=False/UnhealthyMachine OwnerRemediated=False/WaitingForRemediation", "a")
	w.reports("HealthCheckSucceeded=False/HasRemediateAnnotation OwnerRemediated=False/WaitingForRemediation", "b")
	w.status(check, 4, 2, 2)
	w.AwaitCondition(check, contract.ConditionRemediationAllowed, healthcheck.ReasonRemediationAllowed,
		"2 of 4 Machines are not judged", "NodeUnread")
	require.Empty(t, w.health("c")+w.health("d"), "nothing that is about Nodes counts")
}

func TestAMachineWhoseNodeWasInAnotherClusterIsLeftToBeJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	w.machine("here", "")
	w.machine("there", "")
	for name, uid := range map[string]string{"here": "now", "there": "before"} {
		w.Change(w.ref(name), fake.WithAnnotations(map[string]string{cluster.UIDAnnotation: uid}))
		w.becomes(name, corev1.ConditionTrue, time.Hour)
		w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	workloads(w, func(own cluster.Workload) (cluster.Workload, error) {
		own.UID = "now"
		return own, nil
	})
	check := w.check("workers")
	w.Create(check)
	w.run(remediation.Options{})
	w.reports("HealthCheckSucceeded=False/NodeDeleted OwnerRemediated=False/WaitingForRemediation", "here")
	w.AwaitCondition(check, contract.ConditionRemediationAllowed, healthcheck.ReasonRemediationAllowed,
		"1 of 2 Machines are not judged", "NodeUnread")
	require.Empty(t, w.health("there"))
}

func TestMissingNodeIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c"} {
		w.machine(name, "")
	}
	w.ports = func(p *remediation.Ports) {
		p.Workload.APIReader = liveReader{p.Workload.APIReader, map[string]bool{"b": true}}
	}
	check := w.check("workers")
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(healthy, "a", "b", "c")
	w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	w.reports("HealthCheckSucceeded=False/NodeDeleted OwnerRemediated=False/WaitingForRemediation", "a")
	w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	w.Never("mark a Machine whose Node the server has", time.Second, func() string {
		if got := w.health("b"); got != healthy {
			return got
		}
		return ""
	})
}

func TestANodeOfTheSameNameWithAnotherUIDIsNotTheMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c"} {
		w.machine(name, "")
	}
	w.Create(w.check("workers"))
	stop := w.run(remediation.Options{})
	w.reports(healthy, "a", "b", "c")
	again := func(name, id string) {
		w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		node := fake.Node(name, id)
		w.Create(node)
		fake.SetNodeCondition(node, corev1.NodeReady, corev1.ConditionTrue, time.Now())
		require.NoError(t, w.Client.Status().Update(t.Context(), node))
	}
	again("a", "fake://another-instance")
	w.reports("HealthCheckSucceeded=False/NodeDeleted OwnerRemediated=False/WaitingForRemediation", "a")
	stop()                 // or the moment without a Node may be seen, and then every Machine of the check is unhealthy
	again("b", "fake://b") // its kubelet has registered again
	w.becomes("c", corev1.ConditionUnknown, time.Hour)
	w.run(remediation.Options{})
	w.reports(marked, "c")
	w.reports(healthy, "b")
}

func TestAMachineWhoseStatusCannotBeWrittenDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		w.machine(name, "zone-"+name)
		if i < 3 {
			w.becomes(name, corev1.ConditionUnknown, time.Duration(i+1)*time.Hour)
		}
	}
	remove := w.Store.Inject(fake.Fault{
		Match: func(r fake.Request) bool {
			return r.Verb == "patch" && r.GVK.Kind == "Machine" && r.Name == "a" && r.UserAgent == userAgent
		},
		Times: -1, Err: apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "a", errors.New("denied by a webhook")),
	})
	check := w.check("workers")
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(marked, "b", "c")
	w.reports(healthy, "d", "e", "f")
	require.Empty(t, w.health("a"))
	w.status(check, 6, 3, 3)
	remove()
	w.reports(marked, "a")
}

func TestACheckThatIsDeletedInTheMiddleLeavesWhatIsMarkedAndANewOneContinues(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "zone-"+name)
	}
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	check := w.check("workers", limited(int64(1)))
	w.Create(check)
	r, mgr := w.reconciler(remediation.Options{})
	require.NoError(t, r.AddToManager(t.Context(), mgr))
	w.Run(mgr)
	w.reports(marked, "a")
	w.status(check, 4, 3, 0)
	w.Delete(w.Get(check))
	w.Gone(check)
	w.Until("know that the check is gone", func() bool {
		return apierrors.IsNotFound(mgr.GetCache().Get(t.Context(), client.ObjectKeyFromObject(check), check.DeepCopy()))
	})
	w.becomes("b", corev1.ConditionUnknown, 2*time.Hour)
	w.Never("judge without a check", time.Second, func() string {
		if got := w.health("a") + w.health("b"); got != marked+healthy {
			return got
		}
		return ""
	})
	again := w.check("workers", limited(int64(1)))
	w.Create(again)
	w.reports(held, "b")
	w.reports(marked, "a")
	w.condition(again, contract.ConditionRemediationAllowed, "False/TooManyUnhealthy")
}

// The Machine that was marked is gone, and its replacement has yet to start: the budget is used, whatever the cache shows.
func TestAReplacementThatHasNotStartedCountsForTheMachineThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "zone-"+name)
	}
	check := w.check("workers", limited(int64(1)))
	w.Create(check)
	stop := w.run(remediation.Options{})
	w.status(check, 4, 4, 1)
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	w.reports(marked, "a")
	w.Delete(w.Get(w.ref("a")))
	w.Gone(w.ref("a"))
	stop()
	w.becomes("b", corev1.ConditionUnknown, 2*time.Hour)
	w.run(remediation.Options{}) // a new process knows it too
	w.reports(held, "b")
	w.Until("be a second later", func() bool {
		ledger, _ := healthcheck.ParseLedger(w.Get(check).GetAnnotations()[healthcheck.LedgerAnnotation], w.Get(check).GetUID())
		return time.Now().Unix() > ledger.InFlight[0].Gone
	})
	w.machine("replacement", "zone-a")
	w.reports(healthy, "replacement")
	w.reports(marked, "b")
}

func TestANewMachineThatDoesNotStartIsMarkedWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c"} {
		w.machine(name, "zone-"+name)
	}
	waiting := fake.Machine("slow", fake.WithLabels(map[string]string{"role": "worker", contract.ClusterNameLabel: "demo"}), owned("set",
		"set-uid"))
	check := w.check("workers", fake.WithField(int64(2), "spec", "checks", "nodeStartupTimeoutSeconds"))
	clock := clocktesting.NewFakePassiveClock(time.Now()) // its limit is reached when the test says so, and not before
	w.Create(check, waiting)
	w.run(remediation.Options{Options: pass.Options{Clock: clock}})
	w.status(check, 4, 3, 4)
	require.Empty(t, w.health("slow"))
	clock.SetTime(time.Now().Add(2 * time.Second))
	w.reports("HealthCheckSucceeded=False/NodeStartupTimeout OwnerRemediated=False/WaitingForRemediation", "slow")
}

func TestACheckThatHasLostItsLedgerTakesMachinesThatStartForReplacements(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c"} {
		w.machine(name, "zone-"+name)
	}
	check := w.check("workers", limited(int64(1)))
	w.Create(check)
	w.run(remediation.Options{})
	w.status(check, 3, 3, 1)
	w.Quiet(userAgent, 500*time.Millisecond)
	w.Create(fake.Machine("starting", fake.WithLabels(map[string]string{"role": "worker", contract.ClusterNameLabel: "demo"}),
		owned("set", "set-uid")))
	w.status(check, 4, 3, 1) // a scale-up does not count
	w.Quiet(userAgent, 500*time.Millisecond)
	w.Change(check, func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.status(check, 4, 3, 0)
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	w.reports(held, "a")
}

func TestAPausedClusterAndOneThatIsNotInitializedRemediateNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c"} {
		w.machine(name, "zone-"+name)
	}
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	demo := fake.Cluster("demo", fake.WithField(true, "spec", "paused"))
	w.Create(demo)
	w.ports = func(p *remediation.Ports) {
		clusters, err := external.NewClusters(p.Cache, p.APIReader, external.ClusterOptions{})
		require.NoError(t, err)
		p.ClusterOf, p.ClusterEvents = clusters.Of, clusters.Source
	}
	check := w.check("workers")
	w.Create(check)
	w.run(remediation.Options{})
	w.condition(check, contract.ConditionPaused, "True/Paused")
	require.Empty(t, w.health("a"))
	w.Change(demo, func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "paused") })
	w.status(check, 3, 3, 3)
	w.AwaitCondition(check, contract.ConditionRemediationAllowed, healthcheck.ReasonRemediationAllowed, "ControlPlaneNotInitialized")
	require.Empty(t, w.health("a"), "the control plane is not initialized")
	ready := w.Get(demo)
	ready.Object["status"] = fake.Cluster("demo").Object["status"]
	require.NoError(t, w.Client.Status().Update(t.Context(), ready))
	w.reports(marked, "a")
	require.Equal(t, "demo", w.Get(check).GetLabels()[contract.ClusterNameLabel])
	require.Equal(t, "Cluster", w.Get(check).GetOwnerReferences()[0].Kind)
}

func TestANewReconcilerNeedsKindsAndPorts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	_, err := remediation.New(w.kinds, remediation.Ports{}, remediation.Options{})
	require.ErrorContains(t, err, "Ports.Client")
	_, err = remediation.New(contract.Kinds{}, remediation.Ports{}, remediation.Options{})
	require.ErrorContains(t, err, "Kinds.Machine needs a GVK")
	_, err = contract.ClusterAPI(contract.V1Alpha4)
	require.ErrorIs(t, err, contract.ErrUnknownVersion)
}
