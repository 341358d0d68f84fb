package remediation_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machine/remediation"
)

func TestAMachineWithAnUnhealthyNodeIsMarkedForItsOwner(t *testing.T) {
	for _, version := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, version)
			check := w.check("workers", limited("40%"))
			if version == contract.V1Beta1 {
				check.Object["spec"].(map[string]any)["maxUnhealthy"] = "40%"
			}
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				w.machine(name, "zone-"+name)
			}
			w.Create(check)
			w.run(remediation.Options{})
			w.reports(healthy, "a", "b", "c", "d", "e")
			w.status(check, 5, 5, 2)

			w.becomes("b", corev1.ConditionUnknown, 10*time.Minute)
			w.reports(marked, "b")
			w.reports(healthy, "a", "c", "d", "e")
			w.status(check, 5, 4, 1)
			w.condition(check, contract.ConditionRemediationAllowed, "True/RemediationAllowed")
			require.Equal(t, []string{"a", "b", "c", "d", "e"}, w.checkState(check).Targets)
			condition, _ := engine.Find(w.state("b").Conditions, contract.ConditionHealthCheckSucceeded)
			require.Equal(t, "Health check failed:\n  * Condition Ready on Node is reporting status Unknown with reason Fake for more than 5m0s",
				condition.Message)
			w.recorded(remediation.ReasonMachineMarkedUnhealthy, 1)

			w.becomes("b", corev1.ConditionTrue, time.Second) // it recovers before its owner acts
			w.reports(healthy, "b")
			w.Quiet(userAgent, time.Second)
		})
	}
}

func TestAMachineIsMarkedWhenItsTimeIsOverAndNotBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	w.machine("a", "")
	w.machine("b", "")
	check := w.check("workers")
	require.NoError(t, unstructured.SetNestedSlice(check.Object, []any{map[string]any{"type": "Ready", "status": "False",
		"timeoutSeconds": int64(3)}},
		"spec", "checks", "unhealthyNodeConditions"))
	w.Create(check)
	clock := clocktesting.NewFakePassiveClock(time.Now()) // its time is over when the test says so, and not before
	w.run(remediation.Options{Options: engine.Options{Clock: clock}})
	w.reports(healthy, "a", "b")
	clock.SetTime(time.Now())
	w.becomes("a", corev1.ConditionFalse, 0)
	w.status(check, 2, 1, 1)
	require.Equal(t, healthy, w.health("a"), "it stays as it is until then")
	var node corev1.Node
	require.NoError(t, w.Client.Get(t.Context(), keyOf("a"), &node))
	clock.SetTime(node.Status.Conditions[0].LastTransitionTime.Add(4 * time.Second))
	w.reports(marked, "a") // without another event
	c, _ := engine.Find(w.state("a").Conditions, contract.ConditionOwnerRemediated)
	require.Greater(t, c.LastTransitionTime.Sub(node.Status.Conditions[0].LastTransitionTime.Time), 3*time.Second)
}

func TestTooManyUnhealthyMachinesAreReportedAndNotMarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "")
	}
	w.becomes("a", corev1.ConditionFalse, time.Hour)
	w.becomes("b", corev1.ConditionFalse, 2*time.Hour)
	check := w.check("workers", limited("25%"))
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(held, "a", "b")
	w.status(check, 4, 2, 0)
	w.condition(check, contract.ConditionRemediationAllowed, "False/TooManyUnhealthy", "(total: 4, unhealthy: 2, maxUnhealthy: 25%)")
	w.Quiet(userAgent, time.Second)
	w.recorded(remediation.ReasonRemediationRestricted, 1)
	condition, _ := engine.Find(w.state("a").Conditions, contract.ConditionHealthCheckSucceeded)
	require.Contains(t, condition.Message, "Not remediated: TooManyUnhealthy, see MachineHealthCheck workers")

	w.becomes("a", corev1.ConditionTrue, time.Minute)
	w.reports(healthy, "a")
	w.reports(marked, "b")
}

// mcm.md 8 (#760): a zonal partition must not replace the Machines of the zone.
func TestAZoneWhoseNodesAllFailIsNotReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a1", "a2", "a3", "b1", "b2", "b3"} {
		w.machine(name, "zone-"+name[:1])
	}
	for _, name := range []string{"a1", "a2", "a3"} {
		w.becomes(name, corev1.ConditionUnknown, 10*time.Minute)
	}
	w.becomes("b1", corev1.ConditionUnknown, time.Hour)
	check := w.check("workers")
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(marked, "b1")
	w.reports(held, "a1", "a2", "a3")
	w.condition(check, contract.ConditionRemediationAllowed, "True/RemediationAllowed",
		"3 of 3 Machines of failure domain zone-a became unhealthy at once")
	w.recorded(remediation.ReasonRemediationRestricted, 1)
}

// That a Machine elsewhere is remediated meanwhile makes the outage no other one.
func TestOutageEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a1", "a2", "b1"} {
		w.machine(name, "zone-"+name[:1])
	}
	w.becomes("a1", corev1.ConditionUnknown, 10*time.Minute)
	w.becomes("a2", corev1.ConditionUnknown, 10*time.Minute)
	check, outage := w.check("workers"), "2 of 2 Machines of failure domain zone-a became unhealthy at once"
	w.Create(check)
	stop := w.run(remediation.Options{})
	w.condition(check, contract.ConditionRemediationAllowed, "False/Outage", outage)
	w.becomes("b1", corev1.ConditionUnknown, time.Hour)
	w.reports(marked, "b1")
	w.condition(check, contract.ConditionRemediationAllowed, "True/RemediationAllowed", outage)
	w.becomes("b1", corev1.ConditionTrue, 0)
	w.condition(check, contract.ConditionRemediationAllowed, "False/Outage", outage)
	w.recorded(remediation.ReasonRemediationRestricted, 1)
	stop()
	for _, name := range []string{"a1", "a2"} { // somebody wants them to be replaced all the same
		w.update(w.ref(name), contract.MachineUpdate{Conditions: []metav1.Condition{
			{Type: contract.ConditionOwnerRemediated, Status: metav1.ConditionFalse, Reason: remediation.ReasonWaitingForRemediation},
		}})
	}
	w.run(remediation.Options{})
	w.condition(check, contract.ConditionRemediationAllowed, "True/RemediationAllowed")
	w.Quiet(userAgent, time.Second)
	w.recorded(remediation.ReasonRemediationRestricted, 1)
}

func TestAllMachinesAtOnceAreNotReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c"} {
		w.machine(name, "zone-"+name)
		w.becomes(name, corev1.ConditionUnknown, 10*time.Minute)
	}
	check := w.check("workers")
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(held, "a", "b", "c")
	w.condition(check, contract.ConditionRemediationAllowed, "False/Outage", "All 3 Machines became unhealthy at once")

	w.Change(w.ref("b"), fake.WithAnnotations(map[string]string{contract.RemediateAnnotation: ""}))
	w.reports("HealthCheckSucceeded=False/HasRemediateAnnotation OwnerRemediated=False/WaitingForRemediation", "b")
	w.reports(held, "a", "c")
}

func TestTheLedgerIsStoredBeforeAMachineIsMarkedAndEachIsWrittenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	names := strings.Split("abcdefghij", "")
	for _, name := range names {
		w.machine(name, "zone-"+name)
	}
	check := w.check("workers")
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(healthy, names...)
	w.status(check, 10, 10, 10)
	w.Quiet(userAgent, time.Second)
	w.Store.ResetRequests()
	for i, name := range names[:4] {
		w.becomes(name, corev1.ConditionUnknown, time.Duration(i+1)*time.Hour)
	}
	w.reports(marked, names[:4]...)
	w.Quiet(userAgent, time.Second)
	var order []string
	for _, r := range w.Writes(userAgent) {
		if r.GVK.Kind == w.kinds.Check.GVK.Kind && r.Subresource == "" {
			order = append(order, "ledger")
		}
		if r.GVK.Kind == "Machine" {
			require.Equal(t, "status", r.Subresource)
			order = append(order, "machine")
		}
	}
	require.Equal(t, "ledger", order[0])
	require.Equal(t, 4, strings.Count(strings.Join(order, " "), "machine"), "one write for each Machine: %v", order)
	ledger, known := healthcheck.ParseLedger(w.Get(check).GetAnnotations()[healthcheck.LedgerAnnotation], w.Get(check).GetUID())
	require.True(t, known)
	require.Len(t, ledger.InFlight, 4)
}

// forgetful is a client of an API server whose webhook takes the annotations from health checks that are written.
type forgetful struct{ client.Client }

func (c forgetful) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	err := c.Client.Patch(ctx, obj, patch, opts...)
	if _, has := obj.GetAnnotations()[healthcheck.LedgerAnnotation]; has && err == nil {
		err = c.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`)))
	}
	return err
}

func TestNoMachineIsMarkedWhileTheLedgerIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "")
	}
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	w.Create(w.check("workers"))
	w.ports = func(p *remediation.Ports) { p.Client = forgetful{p.Client} }
	stop := w.run(remediation.Options{})
	w.Never("mark a Machine that no ledger has", time.Second, func() string {
		if marks := w.health("a"); strings.Contains(marks, marked) {
			return marks
		}
		return ""
	})
	stop()
	w.ports = nil
	w.run(remediation.Options{})
	w.reports(marked, "a")
}

func TestMachineWithoutAnOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	w.machine("a", "", func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) })
	w.machine("b", "")
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	check := w.check("workers")
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(held, "a")
	condition, _ := engine.Find(w.state("a").Conditions, contract.ConditionHealthCheckSucceeded)
	require.Contains(t, condition.Message, "Not remediated: No controller owns the Machine")

	w.Change(w.ref("a"), owned("adopting", "adopting-uid")) // a set adopts it
	w.reports(marked, "a")
}

func TestASelectorMaySelectNothingEverythingOrBeWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	w.machine("a", "")
	w.machine("b", "", fake.WithLabels(map[string]string{contract.ClusterNameLabel: "another"}))
	selecting := func(name string, selector map[string]any) *unstructured.Unstructured {
		return w.check(name, fake.WithField(selector, "spec", "selector"))
	}
	nothing := selecting("nothing", map[string]any{"matchLabels": map[string]any{"role": "none"}})
	wrong := selecting("wrong", map[string]any{"matchExpressions": []any{map[string]any{"key": "role", "operator": "Near",
		"values": []any{"x"}}}})
	w.Create(nothing, wrong)
	w.run(remediation.Options{})
	w.status(nothing, 0, 0, 0)
	w.condition(wrong, contract.ConditionRemediationAllowed, "False/SelectorUnreadable", "the selector cannot be read")
	w.status(wrong, 0, 0, 0)
	require.Empty(t, w.health("a"))

	everything := selecting("everything", map[string]any{})
	w.Create(everything)
	w.status(everything, 1, 1, 1) // of its own cluster
	w.reports(healthy, "a")
	require.Empty(t, w.health("b"))
}

// Without it no Machine is selected, and all places in the ledger would be empty ones.
func TestTheLedgerStaysWhileTheSelectorCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b"} {
		w.machine(name, "")
	}
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	check := w.check("workers")
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(marked, "a")
	before := w.Get(check).GetAnnotations()[healthcheck.LedgerAnnotation]
	require.Contains(t, before, string(w.Get(w.ref("a")).GetUID()))
	w.Change(check, func(u *unstructured.Unstructured) {
		wrong := map[string]any{"key": "role", "operator": "Near", "values": []any{"x"}}
		require.NoError(t, unstructured.SetNestedSlice(u.Object, []any{wrong}, "spec", "selector", "matchExpressions"))
	})
	w.condition(check, contract.ConditionRemediationAllowed, "False/SelectorUnreadable", "the selector cannot be read")
	w.status(check, 0, 0, 0)
	require.Equal(t, before, w.Get(check).GetAnnotations()[healthcheck.LedgerAnnotation])
	w.reports(marked, "a")
}

func TestARestoredMachineThatIsHealthyIsNotRemediated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	old := metav1.NewTime(time.Now().Add(-24 * time.Hour))
	for _, name := range []string{"a", "b"} {
		w.machine(name, "")
		w.update(w.ref(name), contract.MachineUpdate{Conditions: []metav1.Condition{
			{Type: contract.ConditionHealthCheckSucceeded, Status: metav1.ConditionFalse, Reason: "UnhealthyNode", LastTransitionTime: old},
			{Type: contract.ConditionOwnerRemediated, Status: metav1.ConditionFalse, Reason: remediation.ReasonWaitingForRemediation,
				LastTransitionTime: old},
		}})
	}
	check := w.check("workers")
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(healthy, "a", "b")
	w.Until("forget them", func() bool {
		return !strings.Contains(w.Get(check).GetAnnotations()[healthcheck.LedgerAnnotation], "inFlight")
	})
}

func TestNothingIsJudgedWhileAnAPIServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c"} {
		w.machine(name, "zone-"+name)
	}
	w.becomes("a", corev1.ConditionUnknown, 10*time.Minute)
	w.ports = func(p *remediation.Ports) {
		p.ReachOf = func(types.NamespacedName) healthcheck.Reach { return healthcheck.Reach{Silent: true} }
	}
	check := w.check("workers")
	w.Create(check)
	stop := w.run(remediation.Options{})
	w.status(check, 3, 3, 3)
	w.AwaitCondition(check, contract.ConditionRemediationAllowed, healthcheck.ReasonRemediationAllowed, "3 of 3 Machines are not judged now")
	w.AwaitCondition(check, contract.ConditionRemediationAllowed, healthcheck.ReasonRemediationAllowed, healthcheck.ReasonUnreachable)
	require.Empty(t, w.health("a"), "what it says stays as it is")
	stop()

	w.ports = func(p *remediation.Ports) {
		p.ReachOf = func(types.NamespacedName) healthcheck.Reach { return healthcheck.Reach{AnsweredAt: time.Now()} }
	}
	stop = w.run(remediation.Options{})
	w.reports(healthy, "b", "c")
	require.NotContains(t, w.health("a"), "OwnerRemediated", "its limit has begun anew")
	stop()
	w.ports = nil
	w.run(remediation.Options{})
	w.reports(marked, "a")
}

// The status may be written later than in the pass that decides it, or not at all.
func TestRestrictionEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b"} {
		w.machine(name, "")
		w.becomes(name, corev1.ConditionFalse, time.Hour)
	}
	check, recorder := w.check("workers", limited("25%")), events.NewFakeRecorder(10)
	w.Create(check)
	w.Store.Inject(fake.Fault{Times: 3, Match: func(r fake.Request) bool {
		return r.Subresource == "status" && r.GVK.Kind == w.kinds.Check.GVK.Kind && r.UserAgent == userAgent
	}})
	w.run(remediation.Options{Options: engine.Options{Recorder: recorder}})
	w.condition(check, contract.ConditionRemediationAllowed, "False/TooManyUnhealthy", "(total: 2, unhealthy: 2, maxUnhealthy: 25%)")
	w.Quiet(userAgent, time.Second)
	require.Len(t, recorder.Events, 1)
	require.Contains(t, <-recorder.Events, remediation.ReasonRemediationRestricted)
}
