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
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machine/remediation"
)

// A Machine that its own reconciler writes at the same time is judged again, and a ledger that another process has written is read again
// before anything is marked.
func TestAWriteOnAnOldVersionIsDecidedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "zone-"+name)
	}
	check := w.check("workers")
	w.Create(check)
	r, mgr := w.reconciler(remediation.Options{})
	require.NoError(t, r.Index(t.Context()))
	w.Run(mgr)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(check)}
	pass := func() string {
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			return err.Error()
		}
		return ""
	}
	w.Until("be healthy", func() bool {
		return pass() == "" && w.health("a") == healthy && w.checkState(check).CurrentHealthy.Or(0) == 4
	})
	conflict := func(kind, name, subresource string) {
		w.Store.FailNext(func(r fake.Request) bool {
			return r.Verb == "patch" && r.GVK.Kind == kind && r.Name == name && r.Subresource == subresource && r.UserAgent == userAgent
		}, apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New("the object has been modified")))
	}
	conflict(w.kinds.Check.GVK.Kind, "workers", "")
	conflict("Machine", "a", "status")
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	writes := func() int {
		return w.Store.CountRequests(func(r fake.Request) bool {
			return r.Verb == "patch" && r.GVK.Kind == "Machine" && r.UserAgent == userAgent && r.Code == 200
		})
	}
	before := writes()
	w.Eventually("be marked", func() string {
		require.Empty(t, pass(), "a conflict is no error")
		if got := w.health("a"); got != marked {
			return got
		}
		return ""
	})
	require.Equal(t, 1, writes()-before)
}

// A cache may be behind, as after an outage: what is marked is destroyed, so the server is asked first.
func TestMarkIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "")
	}
	w.ports = func(p *remediation.Ports) {
		p.Workload.APIReader = liveReader{p.Workload.APIReader, map[string]bool{"b": true}}
	}
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	w.becomes("b", corev1.ConditionUnknown, 2*time.Hour)
	check := w.check("workers")
	w.Create(check)
	stop := w.run(remediation.Options{})
	w.reports(marked, "a")
	w.reports(healthy, "c", "d")
	w.Never("mark a Machine whose Node the server has as ready", time.Second, func() string { return w.health("b") })
	stop()
	w.ports = nil
	w.run(remediation.Options{})
	w.reports(marked, "b")
}

// rewrites gives a Machine its provider ID in another form than its Node has, as a provider of another version may.
func (w *world) rewrites(name string) {
	w.t.Helper()
	w.update(w.ref(name), contract.MachineUpdate{ProviderID: contract.SetTo("fake:///zone/" + name)})
}

// The set would delete the Machine, and its Node would not be drained.
func TestAMachineWhoseProviderIDIsWrittenInAnotherFormIsJudgedByItsNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "")
	}
	w.Create(w.check("workers"))
	w.run(remediation.Options{})
	w.reports(healthy, "a", "b", "c", "d")
	w.rewrites("b")
	w.Never("mark a Machine whose Node is ready", time.Second, func() string {
		if got := w.health("b"); got != healthy {
			return got
		}
		return ""
	})
	w.becomes("b", corev1.ConditionUnknown, time.Hour)
	w.reports(marked, "b")
}

// Nothing says whose the Node is that the API server has: no UID was recorded for the Machine, and its provider ID differs.
func TestAMachineWithoutARecordedUIDIsNotMarkedForANodeWithAnotherProviderID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "")
	}
	w.rewrites("b")
	w.update(w.ref("b"), contract.MachineUpdate{Node: contract.SetTo(contract.NodeRef{Name: "b"})})
	require.Empty(t, w.state("b").Node.UID)
	w.Delete(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	w.ports = func(p *remediation.Ports) {
		p.Workload.APIReader = liveReader{p.Workload.APIReader, map[string]bool{"b": true}}
	}
	w.Create(w.check("workers"))
	w.run(remediation.Options{})
	w.reports(healthy, "a", "c", "d")
	w.Never("mark the Machine", time.Second, func() string { return w.health("b") })
}

// The replacement is there before the Machine is gone, and was made earlier than the ledger says that the Machine was marked.
func TestAReplacementTakesThePlaceOfAMachineThatAClockThatIsAheadHasMarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c"} {
		w.machine(name, "zone-"+name)
	}
	w.Change(w.ref("a"), func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/drain"}) })
	check := w.check("workers", limited(int64(1)))
	w.Create(check)
	w.run(remediation.Options{Options: pass.Options{Clock: clocktesting.NewFakePassiveClock(time.Now().Add(3 * time.Minute))}})
	w.status(check, 3, 3, 1)
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	w.reports(marked, "a")
	w.Delete(w.Get(w.ref("a")))
	time.Sleep(time.Until(w.state("c").Created.Add(time.Second))) // times of the API server have no fractions
	w.machine("replacement", "zone-a")
	w.reports(healthy, "replacement")
	w.becomes("b", corev1.ConditionUnknown, 2*time.Hour)
	w.reports(held, "b")
	w.Change(w.ref("a"), func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	w.reports(marked, "b")
}

// annotated adds an annotation to a Machine.
func (w *world) annotated(name, key string) {
	w.t.Helper()
	w.Change(w.ref(name), fake.WithAnnotations(map[string]string{key: ""}))
}

func TestAMachineThatIsSkippedLosesItsVerdictAndItsMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.machine(name, "zone-"+name)
	}
	w.becomes("a", corev1.ConditionUnknown, time.Hour)
	w.becomes("b", corev1.ConditionUnknown, 2*time.Hour)
	check := w.check("workers", limited("25%"))
	w.Create(check)
	w.run(remediation.Options{})
	w.reports(held, "a", "b")
	w.annotated("a", healthcheck.SkipAnnotation)
	w.reports("", "a") // and it is available again when its Node is
	w.annotated("c", healthcheck.SkipAnnotation)
	w.reports("", "c")
	w.status(check, 2, 1, 0)

	w.Change(check, func(u *unstructured.Unstructured) { limited("100%")(u) })
	w.reports(marked, "b")
	w.annotated("b", healthcheck.SkipAnnotation) // before its owner has acted
	w.reports("", "b")
	w.Until("forget it", func() bool {
		ledger, _ := healthcheck.ParseLedger(w.Get(check).GetAnnotations()[healthcheck.LedgerAnnotation], w.Get(check).GetUID())
		return len(ledger.InFlight) == 0
	})
	w.Quiet(userAgent, time.Second)

	w.Change(w.ref("b"), func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.reports(marked, "b")
}

func TestARequestForAMachineThatIsSkippedIsWithdrawn(t *testing.T) {
	t.Parallel()
	w, check := remedied(t, contract.V1Beta2, "b", "d")
	w.serveRemedies()
	w.Create(template(), check)
	w.run(remediation.Options{})
	w.reports(requested, "b", "d")
	w.annotated("b", healthcheck.SkipAnnotation)
	w.reports("", "b")
	w.Gone(request("b"))
	require.NotNil(t, w.Get(request("d")))
	w.Quiet(userAgent, time.Second)
}

func TestConditionsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	for name, reason := range map[string]string{"a": "FanIsLoud", "b": healthcheck.ReasonUnhealthyNode, "c": healthcheck.ReasonUnhealthyNode} {
		w.machine(name, "", fake.WithAnnotations(map[string]string{healthcheck.SkipAnnotation: ""}))
		owners := remediation.ReasonWaitingForRemediation
		if name == "c" {
			owners = contract.ReasonMachineDeleting
		}
		w.update(w.ref(name), contract.MachineUpdate{Conditions: []metav1.Condition{
			{Type: contract.ConditionHealthCheckSucceeded, Status: metav1.ConditionFalse, Reason: reason},
			{Type: contract.ConditionOwnerRemediated, Status: metav1.ConditionFalse, Reason: owners},
		}})
	}
	w.annotated("b", contract.PausedAnnotation)
	w.Create(w.check("workers"))
	w.run(remediation.Options{})
	w.reports("OwnerRemediated=False/MachineDeleting", "c")
	w.Quiet(userAgent, time.Second)
	require.Equal(t, "HealthCheckSucceeded=False/FanIsLoud OwnerRemediated=False/WaitingForRemediation", w.health("a"))
	require.Equal(t, marked, w.health("b"))
}

// A set that has released a Machine does not take back what it has said of it.
func TestConditionOfAnOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, contract.V1Beta2)
	w.machine("a", "")
	w.machine("b", "", func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) })
	for _, name := range []string{"a", "b"} {
		w.update(w.ref(name), contract.MachineUpdate{Conditions: []metav1.Condition{
			{Type: contract.ConditionOwnerRemediated, Status: metav1.ConditionFalse, Reason: contract.ReasonCannotBeRemediated},
		}})
	}
	w.Create(w.check("workers"))
	w.run(remediation.Options{})
	w.reports(healthy+" OwnerRemediated=False/CannotBeRemediated", "a")
	w.Quiet(userAgent, time.Second)
	require.Equal(t, healthy, w.health("b"))
}
