package machine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machine"
)

func (w *world) expires(m *unstructured.Unstructured, want string) {
	w.t.Helper()
	w.eventually("certificates that end at "+want, func() string {
		if got, _, _ := unstructured.NestedString(w.get(m).Object, "status", "certificatesExpiryDate"); got != want {
			return "they end at " + got
		}
		return ""
	})
}

func TestAnUnreadableEndOfCertificatesIsAConditionAndNoLoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{})
	annotate := func(obj *unstructured.Unstructured, value string) {
		w.change(obj, func(u *unstructured.Unstructured) {
			fake.WithAnnotations(map[string]string{contract.CertificatesExpiryAnnotation: value})(u)
		})
	}
	m := w.machineWith("m1", fake.WithLabels(map[string]string{contract.ControlPlaneLabel: ""}))
	worker := w.machineWith("m2", fake.WithAnnotations(map[string]string{contract.CertificatesExpiryAnnotation: "never"}))
	w.conditionIs(m, contract.ConditionReady, contract.ReasonReady)
	config := fake.BootstrapConfig(contract.V1Beta2, "m1")
	annotate(config, "2027-01-31T12:00:00Z")
	w.expires(m, "2027-01-31T12:00:00Z")
	annotate(m, "2028-01-31T12:00:00Z")
	w.expires(m, "2028-01-31T12:00:00Z")

	annotate(m, "soon")
	message := w.conditionIs(m, machine.ConditionCertificatesExpiryKnown, machine.ReasonInvalidAnnotation)
	if !strings.Contains(message, contract.CertificatesExpiryAnnotation) || !strings.Contains(message, `Machine is "soon"`) {
		t.Errorf("message: %s", message)
	}
	w.isQuiet()
	w.expires(m, "2028-01-31T12:00:00Z")
	w.recorded(machine.ReasonInvalidAnnotation, 1)
	if got := conditionOf(w.get(m), contract.ConditionReady).Reason; got != contract.ReasonReady {
		t.Errorf("nothing waits for it, and the Machine is %s", got)
	}

	w.change(m, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations", contract.CertificatesExpiryAnnotation)
	})
	w.expires(m, "2027-01-31T12:00:00Z")
	w.eventually("the condition to go", func() string {
		if c := conditionOf(w.get(m), machine.ConditionCertificatesExpiryKnown); c.Type != "" {
			return c.Message
		}
		return ""
	})
	w.change(config, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{}) })
	w.expires(m, "")
	w.conditionIs(worker, contract.ConditionReady, contract.ReasonReady)
	if c := conditionOf(w.get(worker), machine.ConditionCertificatesExpiryKnown); c.Type != "" {
		t.Errorf("a worker has no such certificates, and says %s", c.Message)
	}
	require.NoError(t, w.client.Delete(t.Context(), m))
	w.goes(m)
}
