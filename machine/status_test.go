package machine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/machine"
)

// restarted is a Machine that was Ready when its process restarted, and for which no process lists the kind of its
// BootstrapConfig.
func restarted(t *testing.T, grace time.Duration) (m *mortal, listed func()) {
	t.Helper()
	m = newMortal(t, "m1")
	m.options.machine.ConnectionGrace = grace
	first := m.start("first")
	m.create()
	m.settles()
	first.stop()
	unlisted := fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
		return r.UserAgent == userAgent+"-second" && r.GVK.Kind == "FakeConfig" && (r.Verb == "list" || r.Verb == "watch")
	}}
	listed = m.store.Inject(unlisted)
	m.start("second")
	return m, listed
}

// nodeTurns has the Node say that it is not Ready, and waits until its Machine says so.
func (m *mortal) nodeTurns() *unstructured.Unstructured {
	m.t.Helper()
	node := m.node("m1")
	base := node.DeepCopy()
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status = corev1.ConditionFalse
		}
	}
	require.NoError(m.t, m.client.Status().Patch(m.t.Context(), node, client.MergeFrom(base)))
	m.conditionIs(m.machine, contract.ConditionNodeReady, machine.ReasonNodeNotReady)
	return m.get(m.machine)
}

func TestAListThatTakesItsTimeAfterARestartChangesNoReadiness(t *testing.T) {
	t.Parallel()
	m, listed := restarted(t, 0)
	said := m.nodeTurns()
	for _, kind := range []string{contract.ConditionBootstrapConfigReady, contract.ConditionInfrastructureReady} {
		if c := conditionOf(said, kind); c.Status != metav1.ConditionTrue {
			t.Errorf("%s: nothing is known that would change it, got %s", kind, describe(said))
		}
	}
	listed()
	m.eventually("the Machine to be left alone", m.atRest)
}

func TestAListThatDoesNotComeBackIsReportedWhenTheGraceIsOver(t *testing.T) {
	t.Parallel()
	m, listed := restarted(t, -1)
	m.conditionSays(m.machine, contract.ConditionBootstrapConfigReady, external.ReasonCacheNotSynced, "FakeConfig", "permissions")
	m.conditionIs(m.machine, contract.ConditionReady, contract.ReasonReadyUnknown)
	listed()
	m.conditionIs(m.machine, contract.ConditionReady, contract.ReasonReady)
}

func TestAListThatDoesNotComeBackIsReportedAtOnceOfANewMachine(t *testing.T) {
	t.Parallel()
	m := newMortal(t, "m1")
	listed := m.store.Inject(fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
		return r.UserAgent == userAgent+"-first" && r.GVK.Kind == "FakeConfig" && (r.Verb == "list" || r.Verb == "watch")
	}})
	m.start("first")
	m.create()
	m.conditionIs(m.machine, contract.ConditionBootstrapConfigReady, external.ReasonCacheNotSynced)
	listed()
	m.conditionIs(m.machine, contract.ConditionReady, contract.ReasonReady)
}
