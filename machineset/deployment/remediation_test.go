package deployment_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/fake/testenv"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// ail says what a health check says of a Machine that it wants to be replaced. Such a Machine is not available.
func (w *world) ail(m *unstructured.Unstructured, status metav1.ConditionStatus) {
	w.t.Helper()
	w.eventually("say of "+m.GetName()+" what a health check says", func() string {
		fresh := w.get(m)
		var state contract.MachineState
		require.NoError(w.t, w.kinds.Machine.Adapter.Read(fresh, &state))
		var want []metav1.Condition
		for _, kind := range []string{contract.ConditionHealthCheckSucceeded, contract.ConditionOwnerRemediated, contract.ConditionAvailable} {
			if kind != contract.ConditionAvailable || status == metav1.ConditionFalse {
				want = append(want, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: contract.ReasonWaitingForRemediation})
			}
		}
		u := contract.MachineUpdate{Conditions: contract.ChangedConditions(state.Conditions, want, fresh.GetGeneration(), time.Now())}
		require.NoError(w.t, w.kinds.Machine.Adapter.Write(fresh, u))
		if err := w.client.Status().Update(w.t.Context(), fresh); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (w *world) limitsAre(image, want string) {
	w.t.Helper()
	w.eventually("the limits of the set of "+image, func() string {
		for _, s := range w.setsNow() {
			name, _, _ := unstructured.NestedString(s.Object, "spec", "template", "spec", "infrastructureRef", "name")
			if got := s.GetAnnotations()[scale.LimitsAnnotation]; name == image && got != want {
				return got
			}
		}
		return ""
	})
}

func TestADeploymentSaysWhatItsSetsMayReplace(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(3, fake.WithField("34%", "spec", "remediation", "maxInFlight"),
		fake.WithField(int64(1), "spec", "rollout", "strategy", "rollingUpdate", "maxUnavailable"))
	w.rolled(d, "blue", 3)
	w.limitsAre("blue", "max-unavailable=1,max-in-flight=2")
	w.machines.Hold(true)
	w.change(d, template("green"))
	w.limitsAre("blue", "outdated")
	w.eventually("a new set", func() string {
		if len(w.setsNow()) < 2 {
			return "there is none"
		}
		return ""
	})
	w.limitsAre("green", "max-unavailable=0,max-in-flight=2")
	w.machines.Hold(false)
	w.rolled(d, "green", 3)
	w.limitsAre("green", "max-unavailable=1,max-in-flight=2")
	w.change(d, fake.WithField(int64(0), "spec", "remediation", "maxInFlight"))
	w.limitsAre("green", "max-unavailable=1,max-in-flight=0")
	w.limitsAre("blue", "outdated")
}

func TestTheMachinesOfADeploymentAreReplacedAsManyAtATimeAsItAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(3, fake.WithField(int64(1), "spec", "remediation", "maxInFlight"))
	w.rolled(d, "blue", 3)
	w.limitsAre("blue", "max-unavailable=0,max-in-flight=1")
	w.Quiet("others", 300*time.Millisecond) // the stand-in replaces lists of conditions
	w.machines.Hold(true)
	before := w.list(w.kinds.Machine.GVK)
	w.ail(&before[0], metav1.ConditionFalse)
	w.Says(&before[0], contract.ConditionOwnerRemediated, contract.ReasonMachineDeleting)
	w.ail(&before[1], metav1.ConditionFalse)
	w.Says(&before[1], contract.ConditionOwnerRemediated, contract.ReasonRemediationDeferred, "maxInFlight is 1")
	w.Says(d, contract.ConditionRemediating, contract.ReasonRemediating, before[1].GetName(), "maxInFlight is 1")
	require.Nil(t, w.get(&before[1]).GetDeletionTimestamp())
	w.machines.Hold(false)
	w.Gone(&before[0], &before[1])
	w.rolled(d, "blue", 3)
	require.NotNil(t, w.get(&before[2]))
}

// With a maximum of 0 unavailable Machines, one that a health check has marked goes when it no longer counts as available.
func TestAMarkedMachineThatIsAvailableGoesWhenItNoLongerIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mgr := w.manager("lives")
	w.machines = fake.NewMachines(mgr.GetClient(), w.kinds.Machine, fake.InfraMachineGVK(contract.V1Beta2))
	require.NoError(t, w.machines.SetupWithManager(mgr))
	die := w.start(mgr)
	sets := w.manager("others")
	_, err := machineset.SetupWithManager(t.Context(), sets, w.sets, machineset.Options{
		Options: pass.Options{StatusDelay: 20 * time.Millisecond},
	})
	require.NoError(t, err)
	w.start(sets)
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	die() // it would have the Machine available again
	before := w.list(w.kinds.Machine.GVK)
	w.ail(&before[0], metav1.ConditionTrue)
	w.Says(&before[0], contract.ConditionOwnerRemediated, contract.ReasonRemediationDeferred, "at least 2 available Machines must stay")
	require.Nil(t, w.get(&before[0]).GetDeletionTimestamp())
	w.ail(&before[0], metav1.ConditionFalse)
	w.Says(&before[0], contract.ConditionOwnerRemediated, contract.ReasonMachineDeleting)
	w.eventually("its deletion", func() string {
		if w.get(&before[0]).GetDeletionTimestamp() == nil {
			return testenv.Describe(w.get(&before[0]))
		}
		return ""
	})
	require.Nil(t, w.get(&before[1]).GetDeletionTimestamp())
}

func TestAMarkedMachineOfAnOutdatedSetIsLeftToTheRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	before := w.list(w.kinds.Machine.GVK)
	w.change(d, fake.WithField("OnDelete", "spec", "rollout", "strategy", "type"))
	w.change(d, template("green"))
	w.limitsAre("blue", "outdated")
	w.Quiet("others", 300*time.Millisecond)
	w.ail(&before[0], metav1.ConditionFalse)
	w.Says(&before[0], contract.ConditionOwnerRemediated, contract.ReasonCannotBeRemediated, "pending removal due to rollout")
	require.Nil(t, w.get(&before[0]).GetDeletionTimestamp())
	w.change(d, fake.WithField("RollingUpdate", "spec", "rollout", "strategy", "type"))
	w.rolled(d, "green", 2)
}
