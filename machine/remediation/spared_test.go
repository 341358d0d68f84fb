package remediation_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machine/remediation"
)

// annotated adds an annotation to a Machine.
func (w *world) annotated(name, key string) {
	w.t.Helper()
	w.Change(w.ref(name), func(u *unstructured.Unstructured) { fake.WithAnnotations(map[string]string{key: ""})(u) })
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
	w.says(held, "a", "b")
	w.annotated("a", healthcheck.SkipAnnotation)
	w.says("", "a") // and it is available again when its Node is
	w.annotated("c", healthcheck.SkipAnnotation)
	w.says("", "c")
	w.status(check, 2, 1, 0)

	w.Change(check, func(u *unstructured.Unstructured) { limited("100%")(u) })
	w.says(marked, "b")
	w.annotated("b", healthcheck.SkipAnnotation) // before its owner has acted
	w.says("", "b")
	w.Eventually("forget it", func() string {
		ledger, _ := healthcheck.ParseLedger(w.Get(check).GetAnnotations()[healthcheck.LedgerAnnotation], w.Get(check).GetUID())
		if len(ledger.InFlight) > 0 {
			return ledger.String()
		}
		return ""
	})
	w.Quiet(userAgent, time.Second)

	w.Change(w.ref("b"), func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.says(marked, "b")
}

func TestARequestForAMachineThatIsSkippedIsWithdrawn(t *testing.T) {
	t.Parallel()
	w, check := remedied(t, contract.V1Beta2, "b", "d")
	w.serveRemedies()
	w.Create(template(), check)
	w.run(remediation.Options{})
	w.says(requested, "b", "d")
	w.annotated("b", healthcheck.SkipAnnotation)
	w.says("", "b")
	w.Gone(request("b"))
	require.NotNil(t, w.Get(request("d")))
	w.Quiet(userAgent, time.Second)
}

func TestWhatOthersSayOfAMachineThatIsSkippedOrPausedStays(t *testing.T) {
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
	w.says("OwnerRemediated=False/MachineDeleting", "c")
	w.Quiet(userAgent, time.Second)
	require.Equal(t, "HealthCheckSucceeded=False/FanIsLoud OwnerRemediated=False/WaitingForRemediation", w.said("a"))
	require.Equal(t, marked, w.said("b"))
}

// A set that has released a Machine does not take back what it has said of it.
func TestWhatAnOwnerHasSaidOfAMachineThatRecoversStaysWithTheOwner(t *testing.T) {
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
	w.says(healthy+" OwnerRemediated=False/CannotBeRemediated", "a")
	w.Quiet(userAgent, time.Second)
	require.Equal(t, healthy, w.said("b"))
}
