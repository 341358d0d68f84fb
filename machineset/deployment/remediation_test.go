package deployment_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// ail says what a health check says of a Machine that it wants to be replaced. Such a Machine is not available.
func (w *world) ail(m *unstructured.Unstructured, status metav1.ConditionStatus) {
	w.t.Helper()
	kinds := []string{contract.ConditionHealthCheckSucceeded, contract.ConditionOwnerRemediated}
	if status == metav1.ConditionFalse {
		kinds = append(kinds, contract.ConditionAvailable)
	}
	w.isFalse(m, kinds...)
}

// isFalse writes conditions of a Machine.
func (w *world) isFalse(m *unstructured.Unstructured, kinds ...string) {
	w.t.Helper()
	w.until("write conditions of "+m.GetName(), func() bool {
		fresh := w.Get(m)
		var state contract.MachineState
		require.NoError(w.t, w.kinds.Machine.Adapter.Read(fresh, &state))
		var want []metav1.Condition
		for _, kind := range kinds {
			want = append(want, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: contract.ReasonWaitingForRemediation})
		}
		u := contract.MachineUpdate{Conditions: contract.ChangedConditions(state.Conditions, want, fresh.GetGeneration(), time.Now())}
		require.NoError(w.t, w.kinds.Machine.Adapter.Write(fresh, u))
		return w.Client.Status().Update(w.t.Context(), fresh) == nil
	})
}

func (w *world) limitsAre(image, want string) {
	w.t.Helper()
	w.Eventually("the limits of the set of "+image, func() string {
		for _, s := range w.setsNow() {
			name := imageOf(&s)
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
	w.limitsAre("blue", `{"maxInFlight":2,"maxUnavailable":1}`)
	w.machines.Hold(true)
	w.Change(d, template("green"))
	w.limitsAre("blue", `{"outdated":true}`)
	w.until("a new set", func() bool { return len(w.setsNow()) >= 2 })
	w.limitsAre("green", `{"maxInFlight":2}`)
	w.machines.Hold(false)
	w.rolled(d, "green", 3)
	w.limitsAre("green", `{"maxInFlight":2,"maxUnavailable":1}`)
	w.Change(d, fake.WithField(int64(0), "spec", "remediation", "maxInFlight"))
	w.limitsAre("green", `{"maxInFlight":0,"maxUnavailable":1}`)
	w.limitsAre("blue", `{"outdated":true}`)
}

func TestTheMachinesOfADeploymentAreReplacedAsManyAtATimeAsItAllows(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 3, fake.WithField(int64(1), "spec", "remediation", "maxInFlight"))
	w.limitsAre("blue", `{"maxInFlight":1}`)
	w.Quiet("others", 300*time.Millisecond) // the stand-in replaces lists of conditions
	w.machines.Hold(true)
	before := w.machinesNow()
	w.ail(&before[0], metav1.ConditionFalse)
	w.AwaitCondition(&before[0], contract.ConditionOwnerRemediated, contract.ReasonMachineDeleting)
	w.ail(&before[1], metav1.ConditionFalse)
	w.AwaitCondition(&before[1], contract.ConditionOwnerRemediated, contract.ReasonRemediationDeferred, "maxInFlight is 1")
	w.AwaitCondition(d, contract.ConditionRemediating, contract.ReasonRemediating, before[1].GetName(), "maxInFlight is 1")
	require.Nil(t, w.Get(&before[1]).GetDeletionTimestamp())
	w.machines.Hold(false)
	w.Gone(&before[0], &before[1])
	w.rolled(d, "blue", 3)
	require.NotNil(t, w.Get(&before[2]))
}

// With a maximum of 0 unavailable Machines, one that a health check has marked goes when it no longer counts as available.
func TestAMarkedMachineThatIsAvailableGoesWhenItNoLongerIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mgr := w.manager("lives")
	w.machines = fake.NewMachines(mgr.GetClient(), w.kinds.Machine, fake.InfraMachineGVK(contract.V1Beta2))
	require.NoError(t, w.machines.SetupWithManager(mgr))
	die := w.Run(mgr)
	sets := w.manager("others")
	_, err := machineset.SetupWithManager(t.Context(), sets, w.kinds, machineset.Options{
		Options: pass.Options{StatusDelay: 20 * time.Millisecond},
	})
	require.NoError(t, err)
	w.Run(sets)
	w.run()
	d := w.deployment(2)
	w.rolled(d, "blue", 2)
	die() // it would have the Machine available again
	before := w.machinesNow()
	w.ail(&before[0], metav1.ConditionTrue)
	w.AwaitCondition(&before[0], contract.ConditionOwnerRemediated, contract.ReasonRemediationDeferred,
		"at least 2 available Machines must stay")
	require.Nil(t, w.Get(&before[0]).GetDeletionTimestamp())
	w.ail(&before[0], metav1.ConditionFalse)
	w.AwaitCondition(&before[0], contract.ConditionOwnerRemediated, contract.ReasonMachineDeleting)
	w.until("its deletion", func() bool { return w.Get(&before[0]).GetDeletionTimestamp() != nil })
	require.Nil(t, w.Get(&before[1]).GetDeletionTimestamp())
}

func TestAMarkedMachineOfAnOutdatedSetIsLeftToTheRollout(t *testing.T) {
	t.Parallel()
	w, d := rolledOut(t, 2)
	before := w.machinesNow()
	w.machines.NotReady(func(m client.Object) bool {
		return m.GetUID() != before[0].GetUID() && m.GetUID() != before[1].GetUID()
	})
	w.Change(d, template("green"))
	w.limitsAre("blue", `{"outdated":true}`)
	w.ail(&before[0], metav1.ConditionFalse)
	w.AwaitCondition(&before[0], contract.ConditionOwnerRemediated, contract.ReasonCannotBeRemediated, "pending removal due to rollout")
	require.Nil(t, w.Get(&before[0]).GetDeletionTimestamp())
	w.machines.NotReady(func(client.Object) bool { return false })
	w.rolled(d, "green", 2)
}

func TestAMarkedMachineThatNoRolloutReplacesIsReplacedByItsSet(t *testing.T) {
	onDelete := []fake.Option{fake.WithField("OnDelete", "spec", "rollout", "strategy", "type")}
	inPlace := []fake.Option{annotated(contract.RolloutTypeAnnotation, contract.RolloutInPlace)}
	tests := map[string]struct {
		options []fake.Option
		paused  bool
		by      string // the template of the Machine that is made for it
	}{
		"by the current set, with OnDelete":    {onDelete, false, "green"},
		"by the current set, in place":         {inPlace, false, "green"},
		"by its own, while paused":             {nil, true, "blue"},
		"by its own, with OnDelete and paused": {onDelete, true, "blue"},
		"by its own, in place and paused":      {inPlace, true, "blue"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).live()
			w.run()
			zero, one := fake.WithField(int64(0), "spec", "rollout", "strategy", "rollingUpdate", "maxSurge"),
				fake.WithField(int64(1), "spec", "rollout", "strategy", "rollingUpdate", "maxUnavailable")
			d := w.deployment(3, append(test.options, zero, one)...)
			w.has(map[string]int{"blue": 3})
			w.Change(d, template("green"), fake.WithField(test.paused, "spec", "paused"))
			w.blocked(d, "Rolling out 3 not up-to-date replicas")
			w.Quiet("others", 300*time.Millisecond)
			before := w.machinesNow()
			w.ail(&before[0], metav1.ConditionFalse)
			w.Gone(&before[0])
			want := map[string]int{"blue": 2}
			want[test.by]++
			w.has(want)
			require.NotNil(t, w.Get(&before[1]))
			require.NotNil(t, w.Get(&before[2]))
		})
	}
}

func TestABrokenMachineDoesNotKeepOthersFromTheirUpdateInPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t).live()
	w.run()
	d := w.inPlace(3)
	w.rolled(d, "blue", 3)
	machines := w.machinesNow()
	w.machines.NotReady(func(m client.Object) bool { return m.GetName() == machines[0].GetName() })
	w.isFalse(&machines[0], contract.ConditionAvailable)
	w.Change(d, version("v1.37.0"))
	w.Eventually("the two others to be updated, one at a time", func() string {
		w.updateSelected(func(m *unstructured.Unstructured, _ string) string {
			if m.GetName() == machines[0].GetName() {
				return "" // it does not answer
			}
			return contract.InPlaceUpdated
		})
		n := 0
		for _, m := range w.machinesNow() {
			if testenv.Text(&m, "spec", "version") == "v1.37.0" {
				n++
			}
		}
		if n < 2 {
			return fmt.Sprint(n, w.condition(d, "RollingOut").Message)
		}
		return ""
	})
	require.Len(t, w.machinesNow(), 3)
}
