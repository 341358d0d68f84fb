package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
)

func TestAMachineIsAvailableWhenItHasBeenReadyForLongEnough(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		ready    metav1.ConditionStatus
		since    time.Time
		minReady time.Duration
		want     metav1.Condition
		again    time.Duration
	}{
		"not ready":       {ready: metav1.ConditionFalse, want: condition(ConditionAvailable, metav1.ConditionFalse, ReasonNotReady, "")},
		"nobody knows":    {ready: metav1.ConditionUnknown, want: condition(ConditionAvailable, metav1.ConditionFalse, ReasonNotReady, "")},
		"at once":         {ready: metav1.ConditionTrue, since: now, want: condition(ConditionAvailable, metav1.ConditionTrue, ReasonAvailable, "")},
		"for long enough": {ready: metav1.ConditionTrue, since: now.Add(-time.Minute), minReady: time.Minute, want: condition(ConditionAvailable, metav1.ConditionTrue, ReasonAvailable, "")},
		"not for long": {ready: metav1.ConditionTrue, since: now.Add(-20 * time.Second), minReady: time.Minute, again: 40 * time.Second,
			want: condition(ConditionAvailable, metav1.ConditionFalse, ReasonWaitingForMinReadySeconds, "")},
	} {
		t.Run(name, func(t *testing.T) {
			got, again := decideAvailable(tc.ready, tc.since, tc.minReady, now)
			if diff := cmp.Diff(tc.want, got); diff != "" || again != tc.again {
				t.Errorf("again after %s, want %s; -want +got:\n%s", again, tc.again, diff)
			}
		})
	}
}

// A new leader whose clock is behind must not take the availability of every Machine back.
func TestTheClockOfTheProcessBeforeMayHaveBeenAhead(t *testing.T) {
	now := time.Unix(10_000, 0)
	saying := func(kind string, at time.Time) metav1.Condition {
		c := condition(kind, metav1.ConditionTrue, "R", "")
		c.LastTransitionTime = metav1.NewTime(at)
		return c
	}
	for name, tc := range map[string]struct {
		ready, available time.Duration // from now; zero: not available yet
		minReady         time.Duration
		want             metav1.ConditionStatus
		again            time.Duration
	}{
		"it is ready since a time to come":              {ready: time.Minute, want: metav1.ConditionTrue},
		"it was found to be available":                  {ready: -30 * time.Second, available: time.Minute, minReady: time.Minute, want: metav1.ConditionTrue},
		"both lie ahead":                                {ready: time.Hour, available: time.Hour + time.Minute, minReady: time.Minute, want: metav1.ConditionTrue},
		"it was not, and has to wait":                   {ready: 10 * time.Second, minReady: time.Minute, want: metav1.ConditionFalse, again: 70 * time.Second},
		"it was, and somebody asks for more time since": {ready: -time.Minute, available: -30 * time.Second, minReady: 90 * time.Second, want: metav1.ConditionFalse, again: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Now: now, stored: []metav1.Condition{saying(ConditionReady, now.Add(tc.ready))}}
			s.State.MinReady = contract.Some(tc.minReady)
			if tc.available != 0 {
				s.stored = append(s.stored, saying(ConditionAvailable, now.Add(tc.available)))
			}
			s.Assert(condition(ConditionReady, metav1.ConditionTrue, "R", ""))
			again := s.assertAvailable()
			got, _ := findCondition(s.asserted, ConditionAvailable)
			if got.Status != tc.want || again != tc.again {
				t.Errorf("want %s again after %s, got %s after %s", tc.want, tc.again, got.Status, again)
			}
		})
	}
}

func TestAMachineIsUpdatingWhileItIsMarked(t *testing.T) {
	no := condition(ConditionUpdating, metav1.ConditionFalse, ReasonNotUpdating, "")
	yes := condition(ConditionUpdating, metav1.ConditionTrue, ReasonInPlaceUpdating, "In-place update in progress")
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        metav1.Condition
	}{
		"not marked":            {nil, no},
		"marked":                {map[string]string{contract.InPlaceUpdateAnnotation: ""}, yes},
		"the hook is pending":   {map[string]string{contract.PendingHooksAnnotation: "BeforeDelete,UpdateMachine"}, yes},
		"another hook is":       {map[string]string{contract.PendingHooksAnnotation: "UpdateMachineLater"}, no},
		"nothing is pending":    {map[string]string{contract.PendingHooksAnnotation: ""}, no},
		"marked and hook is so": {map[string]string{contract.InPlaceUpdateAnnotation: "", contract.PendingHooksAnnotation: "UpdateMachine"}, yes},
	} {
		t.Run(name, func(t *testing.T) {
			state := contract.MachineState{Metadata: contract.Metadata{Annotations: tc.annotations}}
			if diff := cmp.Diff(tc.want, decideUpdating(&state)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestWhatAPolicyLeavesOpenInUpdatingIsFilledIn(t *testing.T) {
	for name, tc := range map[string]struct{ says, want metav1.Condition }{
		"nothing": {want: condition(ConditionUpdating, metav1.ConditionUnknown, ReasonNotYetReported, "")},
		"yes":     {metav1.Condition{Status: metav1.ConditionTrue}, condition(ConditionUpdating, metav1.ConditionTrue, ReasonUpdating, "")},
		"no":      {metav1.Condition{Status: metav1.ConditionFalse, Type: "X"}, condition(ConditionUpdating, metav1.ConditionFalse, ReasonNotUpdating, "")},
		"all": {condition("", metav1.ConditionTrue, ReasonInPlaceUpdateFailed, "no way"),
			condition(ConditionUpdating, metav1.ConditionTrue, ReasonInPlaceUpdateFailed, "no way")},
	} {
		t.Run(name, func(t *testing.T) {
			policy := Policy{Updating: func(*contract.MachineState) metav1.Condition { return tc.says }}
			s := &Scope{env: &Reconciler{options: Options{Policy: policy}}}
			if diff := cmp.Diff(tc.want, s.updating()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
